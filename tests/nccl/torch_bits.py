#!/usr/bin/env python3
"""Whether the bits of a row's sum depend on the rows beside it, or on the number of ranks.

torchrun --nproc-per-node N torch_bits.py [POLICY]

POLICY: as PLAIT_ALGO. With `reproducible_tree`, 1, 2, 4 and 8 ranks have the sums of one tree.
"""
import os
import sys

import checks

POLICY = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("PLAIT_ALGO", "")
os.environ["PLAIT_ALGO"] = POLICY
checks.load()
import torch  # pylint: disable=wrong-import-position
import torch.distributed as dist  # pylint: disable=wrong-import-position

RANK, WORLD = checks.RANK, checks.WORLD
DEVICE = torch.device("cuda", checks.LOCAL_RANK % torch.cuda.device_count())
HIDDEN = 4096
TERMS = 8  # of an element, shared by the ranks


def term(number, dtype):
    """A row, the same on all ranks: numbers of many magnitudes."""
    values = torch.Generator().manual_seed(number)
    row = torch.randn(HIDDEN, generator=values) * torch.exp2(4 * torch.randn(HIDDEN,
                                                                             generator=values))
    return row.to(dtype).to(DEVICE)


def tree(first, number, dtype):
    """Neighbours are added, then neighbouring sums, each in the type of the row."""
    if number == 1:
        return term(first, dtype)
    half = number // 2
    return tree(first, half, dtype) + tree(first + half, half, dtype)


def is_one_sum(dtype):
    """The row has the same bits in all batches, and with a tree those of any number of ranks."""
    own = TERMS // WORLD
    row = tree(RANK * own, own, dtype)
    wanted = tree(0, TERMS, dtype) if POLICY == "reproducible_tree" else None
    for rows in (1, 2, 3, 8, 33, 128, 700, 4096):
        for place in {0, rows // 2, rows - 1}:
            batch = torch.randn(rows, HIDDEN, device=DEVICE).to(dtype)
            batch[place] = row
            dist.all_reduce(batch)
            if wanted is None:
                wanted = batch[place].clone()
            if not torch.equal(batch[place], wanted):
                return False
    return True


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)

    def merge(failures):
        count = torch.tensor([failures], device=DEVICE)
        dist.all_reduce(count)
        return int(count)

    tests = checks.Checks(merge)
    tests.plait_is_loaded()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        tests.run(f"{POLICY} bits of {dtype}", lambda dtype=dtype: is_one_sum(dtype))
    dist.destroy_process_group()
    tests.end()


if __name__ == "__main__":
    main()
