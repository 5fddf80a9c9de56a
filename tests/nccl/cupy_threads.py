#!/usr/bin/env python3
"""CuPy's binding of NCCL in one process that drives all its GPUs from one thread.

python cupy_threads.py [RANKS]: more ranks than GPUs need PLAIT_SHARE_DEVICES=1.
"""
import sys

import checks

checks.load()
import cupy  # pylint: disable=wrong-import-position
from cupy.cuda import nccl  # pylint: disable=wrong-import-position


def main():
    gpus = cupy.cuda.runtime.getDeviceCount()
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else gpus
    devices = [rank % gpus for rank in range(ranks)]
    comms = nccl.NcclCommunicator.initAll(devices)
    tests = checks.Checks()
    tests.plait_is_loaded()
    arrays, streams = [], []
    for rank, device in enumerate(devices):
        with cupy.cuda.Device(device):
            arrays.append(cupy.full(1000, rank + 1, dtype=cupy.float32))
            streams.append(cupy.cuda.Stream(non_blocking=True))
            cupy.cuda.Device().synchronize()

    def all_reduce():
        """Without setting the device: each call runs on its communicator's."""
        cupy.cuda.Device(devices[0]).use()
        nccl.groupStart()
        for comm, array, stream in zip(comms, arrays, streams):
            comm.allReduce(array.data.ptr, array.data.ptr, 1000, nccl.NCCL_FLOAT32, nccl.NCCL_SUM,
                           stream.ptr)
        nccl.groupEnd()
        for stream in streams:
            stream.synchronize()
        return all(bool((array == ranks * (ranks + 1) / 2).all()) for array in arrays)

    tests.run("all_reduce of all devices in a group", all_reduce)
    tests.run("the current device is as before",
              lambda: cupy.cuda.runtime.getDevice() == devices[0])
    tests.run("one after the other is destroyed",
              lambda: all(comm.destroy() is None for comm in comms))
    tests.end()


if __name__ == "__main__":
    main()
