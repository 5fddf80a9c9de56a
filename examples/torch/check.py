#!/usr/bin/env python3
"""Checks the C half of fused_norm.py on CPU ranks, without PyTorch:

mpirun -n 2 python3 check.py libfused_norm.so
"""

import ctypes as c
import math
import os
import sys

ROWS, COLUMNS, EPSILON = 5, 1000, 1e-3


def value(rank, i):
    return math.sin(1 + i * (rank + 1) * 0.37) * 3


def floats(numbers):
    """In memory that is aligned to 16 bytes."""
    memory = c.create_string_buffer(4 * len(numbers) + 16)
    array = (c.c_float * len(numbers)).from_buffer(memory, -c.addressof(memory) % 16)
    array[:] = numbers
    return array


def main():
    library = c.CDLL(sys.argv[1])
    for function in (library.fused_norm_open, library.fused_norm, library.fused_norm_close):
        function.restype = c.c_char_p
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    ranks = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    comm = c.c_void_p()
    text = library.fused_norm_open(c.byref(comm))
    assert text is None, text
    size = ROWS * COLUMNS
    partial = floats([value(rank, i) for i in range(size)])
    residual = floats([value(50, i) for i in range(size)])
    weight = floats([1 + value(60, i) / 10 for i in range(COLUMNS)])
    out = floats([0] * size)
    text = library.fused_norm(comm, 0, partial, residual, weight, out, c.c_size_t(ROWS),
                              c.c_size_t(COLUMNS), c.c_float(EPSILON), None)
    assert text is None, text
    text = library.fused_norm_close(comm)
    assert text is None, text

    wrong = 0
    for row in range(ROWS):
        places = range(row * COLUMNS, (row + 1) * COLUMNS)
        x = [value(50, i) + sum(value(r, i) for r in range(ranks)) for i in places]
        factor = 1 / math.sqrt(sum(v * v for v in x) / COLUMNS + EPSILON)
        for i, v in zip(places, x):
            wrong += abs(residual[i] - v) > 1e-4
            wrong += abs(out[i] - v * factor * weight[i % COLUMNS]) > 1e-4
    print(f"rank {rank}: {wrong} of {2 * size} values are wrong")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
