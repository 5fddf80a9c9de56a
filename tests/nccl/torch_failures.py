#!/usr/bin/env python3
"""What PyTorch does when ranks are stuck or gone: its watchdog, an abort, and a smaller group.

torchrun --nproc-per-node N torch_failures.py, with at least 2 ranks.
"""
import datetime
import time

import checks

checks.load()
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position

RANK, WORLD = checks.RANK, checks.WORLD
DEVICE = torch.device("cuda", checks.LOCAL_RANK % torch.cuda.device_count())


def sum_of_ones(group=None):
    mine = torch.ones(1000, device=DEVICE)
    dist.all_reduce(mine, group=group)
    torch.cuda.synchronize()
    return mine[0].item()


def abort_ends_a_stuck_call(gloo):
    """Rank 0 waits for the others, which make no call, and aborts."""
    group = dist.new_group(list(range(WORLD)))
    sum_of_ones(group)
    dist.barrier(gloo)
    begin = time.monotonic()
    if RANK == 0:
        mine = torch.ones(1000, device=DEVICE)
        dist.all_reduce(mine, group=group)
        time.sleep(1)
    backend = group._get_backend(DEVICE)  # pylint: disable=protected-access
    dist.barrier(gloo)
    backend.abort()
    torch.cuda.synchronize()
    return time.monotonic() - begin < 60


def device_works_after_an_abort():
    return (torch.ones(10, device=DEVICE) * 2).sum().item() == 20


def a_new_group_works_after_an_abort():
    return sum_of_ones(dist.new_group(list(range(WORLD)))) == WORLD


def shrunk_group_works():
    """Without the last rank, which does not call.

    PyTorch aborts the groups that the smaller one replaces, and the last rank hears of that. Its
    watchdog would take it for the end of the last call if it had not seen yet, by looking every 100
    ms, that this call has ended.
    """
    if not hasattr(dist, "shrink_group") or WORLD < 3:
        return True
    time.sleep(1)
    if RANK == WORLD - 1:
        return True
    group = dist.shrink_group([WORLD - 1])
    return sum_of_ones(group) == WORLD - 1


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE, timeout=datetime.timedelta(seconds=120))
    gloo = dist.new_group(backend="gloo")

    def merge(failures):
        count = torch.tensor([failures])
        dist.all_reduce(count, group=gloo)
        return int(count)

    tests = checks.Checks(merge)
    tests.plait_is_loaded()
    tests.run("before", lambda: sum_of_ones() == WORLD)
    tests.run("an abort ends a stuck call", lambda: abort_ends_a_stuck_call(gloo))
    tests.run("the device works after an abort", device_works_after_an_abort)
    tests.run("a new group works after an abort", a_new_group_works_after_an_abort)
    # The last one, because PyTorch's default group is the smaller one afterwards.
    shrunk = checks.Checks()
    shrunk.run("a shrunk group works", shrunk_group_works)
    tests.failed += shrunk.failed
    checks.exchange("end", b"end")
    tests.end()


if __name__ == "__main__":
    main()
