#!/usr/bin/env python3
"""Checks fused_norm.py against PyTorch's own arithmetic, and times it in CUDA graphs beside an
all-reduce followed by a compiled kernel. Prints a line of JSON for each size:

mpirun -n 2 -x LIBFUSED_NORM=build/libfused_norm.so python3 compare.py
"""

import json
import os
import sys

import torch

import fused_norm as plait

EPSILON = 1e-5
CALLS, REPEATS = 50, 7


def separate(total, residual, weight):
    x = total.float() + residual.float()
    residual.copy_(x)
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight.float()).to(
        total.dtype)


compiled = torch.compile(separate, dynamic=False, mode="max-autotune-no-cudagraphs")


def graph_of(call):
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    return graph


def time(graph, line_up):
    """The best mean of a call in microseconds."""
    best = float("inf")
    for _ in range(REPEATS):
        line_up()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) * 1e3 / CALLS)
    return best


def compare(tokens, hidden, rank):
    torch.manual_seed(tokens * hidden + rank)
    partial = torch.randn(tokens, hidden, dtype=torch.bfloat16, device="cuda")
    torch.manual_seed(tokens * hidden)
    residual = torch.randn(tokens, hidden, dtype=torch.bfloat16, device="cuda")
    weight = torch.randn(hidden, dtype=torch.bfloat16, device="cuda")
    total = torch.empty_like(partial)

    plait.all_reduce(partial, total)
    expected_residual = residual.clone()
    expected = separate(total, expected_residual, weight)
    got_residual = residual.clone()
    got = plait.fused_norm(partial, got_residual, weight, EPSILON)
    torch.testing.assert_close(got_residual, expected_residual, rtol=0, atol=0)
    torch.testing.assert_close(got, expected, rtol=2**-7, atol=2**-7)

    def line_up():
        torch.cuda.synchronize()
        plait.all_reduce(weight, total[0])  # a barrier

    def one_after_the_other():
        plait.all_reduce(partial, total)
        return compiled(total, residual, weight)

    calls = {
        "fused": lambda: plait.fused_norm(partial, residual, weight, EPSILON),
        "all_reduce": lambda: plait.all_reduce(partial, total),
        "separate": one_after_the_other,
    }
    times = {name: time(graph_of(call), line_up) for name, call in calls.items()}
    if rank == 0:
        print(json.dumps({"tokens": tokens, "hidden": hidden, "bytes": partial.nbytes,
                          **{name: round(us, 3) for name, us in times.items()}}), flush=True)


def main():
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("RANK", 0)))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    plait.open_communicator()
    hidden_sizes = [int(size) for size in sys.argv[1:]] or [4096, 8192, 5128]
    for hidden in hidden_sizes:
        for tokens in (1, 4, 16, 64, 256, 1024):
            compare(tokens, hidden, rank)


if __name__ == "__main__":
    main()
