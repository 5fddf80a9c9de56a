#!/usr/bin/env python3
"""DDP over NCCL's interface: the same training on one process gives the same weights.

torchrun --nproc-per-node N torch_ddp.py
"""
import checks

checks.load()
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position
from torch.nn.parallel import DistributedDataParallel  # pylint: disable=wrong-import-position

RANK, WORLD = checks.RANK, checks.WORLD
DEVICE = torch.device("cuda", checks.LOCAL_RANK % torch.cuda.device_count())
STEPS, BATCH = 20, 16


def model(dtype):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.BatchNorm1d(256),
                               torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(DEVICE, dtype)


def batch(step, rank, dtype):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    data = torch.randn(BATCH, 64, generator=generator)
    return data.to(DEVICE, dtype), torch.randint(10, (BATCH,), generator=generator).to(DEVICE)


def train(net, batches_of_step, dtype):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for data, target in batches_of_step(step):
            loss = torch.nn.functional.cross_entropy(net(data).float(), target)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def trains_alike(dtype, tolerance, begin=lambda: None, **options):
    """Batch norm has its own statistics on each rank, so it is frozen. `begin` is called once the
    model and its buckets are there."""
    parallel = DistributedDataParallel(model(dtype).eval(), **options)
    begin()
    train(parallel, lambda step: [batch(step, RANK, dtype)], dtype)
    alone = model(dtype).eval()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        for rank in range(WORLD):
            data, target = batch(step, rank, dtype)
            loss = torch.nn.functional.cross_entropy(alone(data).float(), target)
            (loss / WORLD).backward()
        optimizer.step()
    return all(torch.allclose(mine.float(), reference.float(), rtol=tolerance, atol=tolerance)
               for mine, reference in zip(parallel.module.parameters(), alone.parameters()))


def ranks_agree(dtype):
    """After training all ranks have the same bits."""
    parallel = DistributedDataParallel(model(dtype))
    train(parallel, lambda step: [batch(step, RANK, dtype)], dtype)
    for parameter in parallel.module.parameters():
        first = parameter.detach().clone()
        dist.broadcast(first, src=0)
        if not torch.equal(first, parameter.detach()):
            return False
    return True


def loss_falls():
    parallel = DistributedDataParallel(torch.nn.SyncBatchNorm.convert_sync_batchnorm(
        model(torch.float32)))
    losses = train(parallel, lambda step: [batch(0, RANK, torch.float32)], torch.float32)
    return losses[-1] < losses[0] / 2


def without_sync():
    parallel = DistributedDataParallel(model(torch.float32).eval())
    with parallel.no_sync():
        data, target = batch(0, RANK, torch.float32)
        torch.nn.functional.cross_entropy(parallel(data), target).backward()
    data, target = batch(1, RANK, torch.float32)
    torch.nn.functional.cross_entropy(parallel(data), target).backward()
    gradient = next(parallel.module.parameters()).grad.clone()
    first = gradient.clone()
    dist.broadcast(first, src=0)
    return torch.allclose(first, gradient)


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl")
    gloo = dist.new_group(backend="gloo")

    def merge(failures):
        count = torch.tensor([failures])
        dist.all_reduce(count, group=gloo)
        return int(count)

    tests = checks.Checks(merge)
    tests.run("ddp float32", lambda: trains_alike(torch.float32, 1e-3))
    tests.plait_is_loaded()
    tests.run("ddp float32, small buckets",
              lambda: trains_alike(torch.float32, 1e-3, bucket_cap_mb=0.01))
    tests.run("ddp float32, gradients as views of buckets",
              lambda: trains_alike(torch.float32, 1e-3, gradient_as_bucket_view=True))
    tests.run("ddp float32, static graph",
              lambda: trains_alike(torch.float32, 1e-3, static_graph=True))
    tests.run("ddp bfloat16", lambda: trains_alike(torch.bfloat16, 5e-2))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        tests.run(f"ranks agree, {dtype}", lambda: ranks_agree(dtype))
    tests.run("synchronised batch norm: the loss falls", loss_falls)
    tests.run("no_sync", without_sync)
    dist.destroy_process_group()
    tests.end()


if __name__ == "__main__":
    main()
