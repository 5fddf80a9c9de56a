#!/usr/bin/env python3
"""CuPy's binding of NCCL, one rank per process, compared with NumPy.

torchrun --nproc-per-node N cupy_calls.py (CuPy needs no PyTorch; torchrun only starts the ranks.)
"""
import ctypes
import os

import checks

checks.load()
import cupy  # pylint: disable=wrong-import-position
import numpy  # pylint: disable=wrong-import-position
from cupy.cuda import nccl  # pylint: disable=wrong-import-position

RANK, WORLD = checks.RANK, checks.WORLD
COUNT = 1000


def of(rank):
    return numpy.arange(COUNT, dtype=numpy.float32) + 1000 * rank


ALL = numpy.stack([of(rank) for rank in range(WORLD)])


class Calls:
    def __init__(self, comm):
        self.comm = comm
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def done(self, array, expected):
        self.stream.synchronize()
        return numpy.allclose(cupy.asnumpy(array), expected)

    def arrays(self, size=COUNT):
        send, recv = cupy.asarray(of(RANK)), cupy.zeros(size, dtype=cupy.float32)
        cupy.cuda.Device().synchronize()
        return send, recv

    def all_reduce(self):
        send, recv = self.arrays()
        self.comm.allReduce(send.data.ptr, recv.data.ptr, COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM,
                            self.stream.ptr)
        return self.done(recv, ALL.sum(0))

    def all_gather(self):
        send, recv = self.arrays(COUNT * WORLD)
        self.comm.allGather(send.data.ptr, recv.data.ptr, COUNT, nccl.NCCL_FLOAT32,
                            self.stream.ptr)
        return self.done(recv, ALL.ravel())

    def reduce_scatter(self):
        part = COUNT // WORLD
        send, recv = self.arrays(part)
        self.comm.reduceScatter(send.data.ptr, recv.data.ptr, part, nccl.NCCL_FLOAT32,
                                nccl.NCCL_MAX, self.stream.ptr)
        return self.done(recv, ALL.max(0)[part * RANK:part * (RANK + 1)])

    def broadcast(self):
        send, recv = self.arrays()
        self.comm.broadcast(send.data.ptr, recv.data.ptr, COUNT, nccl.NCCL_FLOAT32, WORLD - 1,
                            self.stream.ptr)
        well = self.done(recv, ALL[WORLD - 1])
        self.comm.bcast(send.data.ptr, COUNT, nccl.NCCL_FLOAT32, 0, self.stream.ptr)
        return well and self.done(send, ALL[0])

    def reduce(self):
        send, recv = self.arrays()
        self.comm.reduce(send.data.ptr, recv.data.ptr, COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 0,
                         self.stream.ptr)
        return self.done(recv, ALL.sum(0) if RANK == 0 else 0)

    def messages(self):
        send, recv = self.arrays()
        nccl.groupStart()
        self.comm.send(send.data.ptr, COUNT, nccl.NCCL_FLOAT32, (RANK + 1) % WORLD,
                       self.stream.ptr)
        self.comm.recv(recv.data.ptr, COUNT, nccl.NCCL_FLOAT32, (RANK - 1) % WORLD,
                       self.stream.ptr)
        nccl.groupEnd()
        return self.done(recv, ALL[(RANK - 1) % WORLD])

    def facts(self):
        return (self.comm.rank_id() == RANK and self.comm.size() == WORLD
                and self.comm.device_id() == cupy.cuda.Device().id
                and self.comm.check_async_error() is None)

    def split(self):
        if not hasattr(self.comm, "split"):
            return True
        part = self.comm.split(RANK % 2, RANK)
        well = part.size() == len(range(RANK % 2, WORLD, 2))
        part.destroy()
        return well


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def in_a_window():
    """An array of CuPy's pool as a window. CuPy has no call for that, NCCL's C interface has."""
    library = ctypes.CDLL(os.environ.get("PLAIT_NCCL_SO", "libnccl.so.2"))

    def call(name, *arguments):
        status = getattr(library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {status}")

    unique, comm, window = UniqueId(), ctypes.c_void_p(), ctypes.c_void_p()
    if RANK == 0:
        call("ncclGetUniqueId", ctypes.byref(unique))
    data = checks.exchange("window", bytes(unique))
    ctypes.memmove(ctypes.byref(unique), data, len(data))
    call("ncclCommInitRank", ctypes.byref(comm), WORLD, unique, RANK)
    both = cupy.concatenate([cupy.asarray(of(RANK)), cupy.zeros(COUNT, dtype=cupy.float32)])
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    address = ctypes.c_void_p(both.data.ptr)
    call("ncclCommWindowRegister", comm, address, ctypes.c_size_t(both.nbytes),
         ctypes.byref(window), 1)
    call("ncclAllReduce", address, ctypes.c_void_p(both.data.ptr + 4 * COUNT),
         ctypes.c_size_t(COUNT), nccl.NCCL_FLOAT32, nccl.NCCL_SUM, comm,
         ctypes.c_void_p(stream.ptr))
    stream.synchronize()
    call("ncclCommWindowDeregister", comm, window)
    call("ncclCommDestroy", comm)
    return numpy.allclose(cupy.asnumpy(both), numpy.concatenate([of(RANK), ALL.sum(0)]))


def main():
    cupy.cuda.Device(checks.LOCAL_RANK % cupy.cuda.runtime.getDeviceCount()).use()
    own = bytes(value % 256 for value in nccl.get_unique_id()) if RANK == 0 else None
    data = checks.exchange("cupy", own)
    if isinstance(nccl.get_unique_id(), tuple):  # of signed bytes, in CuPy before 14
        data = tuple(v - 256 if v > 127 else v for v in data)
    comm = nccl.NcclCommunicator(WORLD, data, RANK)

    def merge(failures):
        mine = cupy.array([failures], dtype=cupy.int32)
        comm.allReduce(mine.data.ptr, mine.data.ptr, 1, nccl.NCCL_INT32, nccl.NCCL_SUM, 0)
        return int(mine[0])

    tests = checks.Checks(merge)
    tests.plait_is_loaded()
    calls = Calls(comm)
    for name in ("facts", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                 "messages", "split"):
        tests.run(name, getattr(calls, name))
    tests.run("in a window", in_a_window)
    comm.destroy()
    tests.end()


if __name__ == "__main__":
    main()
