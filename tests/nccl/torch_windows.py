#!/usr/bin/env python3
"""PyTorch's memory pools, whose memory NCCL's interface allocates and registers.

torchrun --nproc-per-node N torch_windows.py
"""
import contextlib

import checks

checks.load()
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position
import torch_ddp  # pylint: disable=wrong-import-position

RANK, WORLD = checks.RANK, checks.WORLD
DEVICE = torch.device("cuda", checks.LOCAL_RANK % torch.cuda.device_count())


def reduces(tensor, step):
    """An all-reduce in place of values that differ between ranks, places and steps."""
    index = torch.arange(tensor.numel(), device=DEVICE)
    tensor.copy_((index * 7 + step * 13 + RANK * 5) % 1000)
    dist.all_reduce(tensor)
    total = sum((index * 7 + step * 13 + rank * 5) % 1000 for rank in range(WORLD))
    return torch.equal(tensor, total.to(tensor.dtype))


def new_pool(backend):
    """Of NCCL's memory or, where PyTorch holds that for impossible because the device has no
    multicast, of cudaMalloc's."""
    try:
        return torch.cuda.MemPool(backend.mem_allocator)
    except RuntimeError:
        return torch.cuda.MemPool()


def use_pool(backend, symmetric):
    pool = new_pool(backend)
    with torch.cuda.use_mem_pool(pool):
        tensors = [torch.empty(count, device=DEVICE) for count in (1 << 10, 1 << 18, 1 << 22)]
    if symmetric:
        backend.register_mem_pool(pool, symm=True)
    else:
        backend.register_mem_pool(pool)
    good = all(reduces(tensor, step) for step in range(5) for tensor in tensors)
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)
    good = good and all(reduces(tensor, 9) for tensor in tensors)
    del tensors
    return good


def trains_in_pool(backend):
    """DDP whose parameters and buckets lie in registered memory. It keeps its first buckets if it
    has to look for unused parameters."""
    pool = new_pool(backend)
    with contextlib.ExitStack() as filling:
        filling.enter_context(torch.cuda.use_mem_pool(pool))

        def begin():
            filling.close()
            torch.cuda.synchronize()
            backend.register_mem_pool(pool, symm=True)

        good = torch_ddp.trains_alike(torch.float32, 1e-3, begin, find_unused_parameters=True)
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)
    return good


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    gloo = dist.new_group(backend="gloo")

    def merge(failures):
        count = torch.tensor([failures])
        dist.all_reduce(count, group=gloo)
        return int(count)

    tests = checks.Checks(merge)
    backend = dist.group.WORLD._get_backend(DEVICE)  # pylint: disable=protected-access
    tests.run("a registered pool", lambda: use_pool(backend, False))
    tests.plait_is_loaded()
    tests.run("a pool of windows", lambda: use_pool(backend, True))
    tests.run("pools again", lambda: all(use_pool(backend, i % 2 == 1) for i in range(10)))
    tests.run("DDP in a pool of windows", lambda: trains_in_pool(backend))
    dist.destroy_process_group()
    tests.end()


if __name__ == "__main__":
    main()
