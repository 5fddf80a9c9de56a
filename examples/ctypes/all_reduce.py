#!/usr/bin/env python3
"""The sum of one array over all ranks, every element checked, from Python without an MPI binding:

mpirun -n 2 python3 examples/ctypes/all_reduce.py build-host/lib/libplait.so

It calls Plait's C interface through ctypes. The processes that mpirun has started find each other
without MPI (docs/launchers.md).
"""

import ctypes as c
import sys

COUNT = 100_003
F32, SUM = 10, 0  # plait.h


class CallOptions(c.Structure):
    """plait_call_options; its size comes first."""

    _fields_ = [("size", c.c_size_t), ("algorithm", c.c_char_p), ("scale", c.c_double),
                ("blocks", c.c_uint), ("threads", c.c_uint), ("symmetric", c.c_int)]


class Plait:
    """The functions of plait.h that this program needs, without their prefix.

    A status other than success raises RuntimeError with the error's sentence.
    """

    SIGNATURES = {
        "comm_create_world": [c.c_void_p, c.POINTER(c.c_void_p)],
        "comm_destroy": [c.c_void_p],
        "comm_rank": [c.c_void_p, c.POINTER(c.c_int)],
        "comm_size": [c.c_void_p, c.POINTER(c.c_int)],
        "comm_describe": [c.c_void_p, c.c_char_p, c.c_size_t, c.POINTER(c.c_size_t)],
        "buffer_allocate": [c.c_void_p, c.c_size_t, c.POINTER(c.c_void_p)],
        "buffer_free": [c.c_void_p],
        "buffer_pointer": [c.c_void_p, c.POINTER(c.c_void_p)],
        "stream_create": [c.c_void_p, c.POINTER(c.c_void_p)],
        "stream_destroy": [c.c_void_p],
        "copy": [c.c_void_p, c.c_void_p, c.c_void_p, c.c_size_t, c.c_void_p],
        "all_reduce": [c.c_void_p, c.c_void_p, c.c_void_p, c.c_size_t, c.c_int, c.c_int,
                       c.c_void_p, c.POINTER(CallOptions)],
        "synchronize": [c.c_void_p, c.c_void_p],
    }

    def __init__(self, library: str):
        self._library = c.CDLL(library)
        self._library.plait_last_error.restype = c.c_char_p
        for name, arguments in self.SIGNATURES.items():
            function = getattr(self._library, f"plait_{name}")
            function.argtypes, function.restype, function.errcheck = arguments, c.c_int, self._check
            setattr(self, name, function)

    def _check(self, status, _function, _arguments):
        if status != 0:
            raise RuntimeError(self._library.plait_last_error().decode())
        return status

    @staticmethod
    def result(kind, function, *arguments):
        """Returns the value that a function writes to its last argument, a pointer."""
        value = kind()
        function(*arguments, c.byref(value))
        return value.value


def contribution(rank: int, i: int) -> int:
    """The value of `rank` at `i`: a small integer, so that sums are exact in f32."""
    return (i * 31 + rank * 17) % 101


def main() -> int:
    plait = Plait(sys.argv[1] if len(sys.argv) > 1 else "libplait.so")
    comm = plait.result(c.c_void_p, plait.comm_create_world, None)
    rank, ranks = (plait.result(c.c_int, ask, comm) for ask in (plait.comm_rank, plait.comm_size))
    text = c.create_string_buffer(256)
    plait.comm_describe(comm, text, len(text), None)
    print(text.value.decode())

    size = COUNT * c.sizeof(c.c_float)
    # Symmetric memory; on a GPU it is device memory.
    buffer = plait.result(c.c_void_p, plait.buffer_allocate, comm, size)
    x = plait.result(c.c_void_p, plait.buffer_pointer, buffer)
    stream = plait.result(c.c_void_p, plait.stream_create, comm)
    values = (c.c_float * COUNT)(*(contribution(rank, i) for i in range(COUNT)))

    plait.copy(comm, x, values, size, stream)
    plait.all_reduce(comm, x, x, COUNT, F32, SUM, stream,
                     CallOptions(c.sizeof(CallOptions), None, 1, 0, 0))
    plait.copy(comm, values, x, size, stream)
    plait.synchronize(comm, stream)

    wrong = sum(values[i] != sum(contribution(r, i) for r in range(ranks)) for i in range(COUNT))
    print(f"rank {rank}: {wrong} of {COUNT} elements are wrong")

    plait.buffer_free(buffer)
    plait.comm_destroy(comm)
    plait.stream_destroy(stream)
    try:
        plait.synchronize(comm, None)
    except RuntimeError as error:
        print(f"rank {rank}: as it should be: {error}")
        return 1 if wrong else 0
    print(f"rank {rank}: a communicator that was destroyed is still taken")
    return 1


if __name__ == "__main__":
    sys.exit(main())
