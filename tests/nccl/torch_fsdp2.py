#!/usr/bin/env python3
"""FSDP2 over NCCL's interface: the same training on one process gives the same weights.

torchrun --nproc-per-node N torch_fsdp2.py
"""
import checks

checks.load()
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position
from torch.distributed.device_mesh import init_device_mesh  # pylint: disable=wrong-import-position
from torch.distributed.fsdp import (  # pylint: disable=wrong-import-position
    FSDPModule, MixedPrecisionPolicy, fully_shard)

RANK, WORLD = checks.RANK, checks.WORLD
DEVICE = torch.device("cuda", checks.LOCAL_RANK % torch.cuda.device_count())
STEPS, BATCH, WIDTH = 10, 8, 65  # an odd width gives shards of different sizes


def model():
    torch.manual_seed(1)
    layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
              for _ in range(4)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10)).to(DEVICE)


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    data = torch.randn(BATCH, WIDTH, generator=generator)
    return data.to(DEVICE), torch.randint(10, (BATCH,), generator=generator).to(DEVICE)


def shard(net, **options):
    for layer in net:
        fully_shard(layer, **options)
    return fully_shard(net, **options)


def train_sharded(net, clip=None):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for step in range(STEPS):
        optimizer.zero_grad()
        data, target = batch(step, RANK)
        torch.nn.functional.cross_entropy(net(data).float(), target).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()


def train_alone(net, clip=None):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for step in range(STEPS):
        optimizer.zero_grad()
        for rank in range(WORLD):
            data, target = batch(step, rank)
            (torch.nn.functional.cross_entropy(net(data), target) / WORLD).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()


def trains_alike(tolerance, clip=None, **options):
    sharded, alone = shard(model(), **options), model()
    train_sharded(sharded, clip)
    train_alone(alone, clip)
    return all(torch.allclose(mine.full_tensor(), reference, rtol=tolerance, atol=tolerance)
               for mine, reference in zip(sharded.parameters(), alone.parameters()))


def trains_in_memory_of_nccl():
    """Gathered weights and gradients lie in memory of ncclMemAlloc that is registered."""
    sharded, alone = shard(model()), model()
    for module in sharded.modules():
        if isinstance(module, FSDPModule):
            module.set_allocate_memory_from_process_group_for_comm(True)
    train_sharded(sharded)
    train_alone(alone)
    return all(torch.allclose(mine.full_tensor(), reference, rtol=1e-3, atol=1e-3)
               for mine, reference in zip(sharded.parameters(), alone.parameters()))


def trains_on_a_mesh():
    """Replicas of shards: all-reduces between the shards' groups."""
    if WORLD % 2:
        return True
    mesh = init_device_mesh("cuda", (2, WORLD // 2), mesh_dim_names=("replicate", "shard"))
    return trains_alike(1e-3, mesh=mesh)


def mixed_precision():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    sharded = shard(model(), mp_policy=policy)
    train_sharded(sharded)
    return all(bool(torch.isfinite(mine.full_tensor()).all()) for mine in sharded.parameters())


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    gloo = dist.new_group(backend="gloo")

    def merge(failures):
        count = torch.tensor([failures])
        dist.all_reduce(count, group=gloo)
        return int(count)

    tests = checks.Checks(merge)
    tests.run("fsdp2", lambda: trains_alike(1e-3))
    tests.plait_is_loaded()
    tests.run("fsdp2 without resharding", lambda: trains_alike(1e-3, reshard_after_forward=False))
    tests.run("fsdp2 with clipped gradients", lambda: trains_alike(1e-3, clip=0.5))
    tests.run("fsdp2 in memory of NCCL", trains_in_memory_of_nccl)
    tests.run("fsdp2 on a mesh of two dimensions", trains_on_a_mesh)
    tests.run("fsdp2 in bfloat16, reduced in float32", mixed_precision)
    dist.destroy_process_group()
    tests.end()


if __name__ == "__main__":
    main()
