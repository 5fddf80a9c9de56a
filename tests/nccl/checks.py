"""Shared by the scripts: loads Plait's libnccl.so.2, counts checks, ends a script that hangs."""
import ctypes
import faulthandler
import os
import pathlib
import sys
import tempfile
import time
import traceback

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", "0"))
SECONDS = float(os.environ.get("PLAIT_TEST_SECONDS", "600"))


def load():
    """Call it before the import of PyTorch, CuPy or JAX. A script that hangs ends by itself."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    library = os.environ.get("PLAIT_NCCL_SO")
    if library:
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)


def exchange(name, data=None):
    """Rank 0 passes `data`; all ranks of this torchrun get it. Without any library's help."""
    folder = pathlib.Path(tempfile.gettempdir())
    run = "-".join(os.environ.get(key, "") for key in ("TORCHELASTIC_RUN_ID", "MASTER_PORT"))
    parent = os.getppid() if WORLD > 1 else os.getpid()
    path = folder / f"plait-{run}-{parent}-{name}"
    if RANK == 0:
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.rename(path)
        return data
    until = time.monotonic() + 120
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"rank 0 wrote no {path}")
        time.sleep(0.01)
    return path.read_bytes()


class Checks:
    """`merge` turns a rank's number of failures into that of all ranks."""

    def __init__(self, merge=lambda failures: failures):
        self.merge = merge
        self.failed = 0

    def run(self, name, body):
        """`body` returns true if all is well, or raises."""
        why = ""
        try:
            well = bool(body())
        except Exception:  # pylint: disable=broad-except: any of them fails the check
            well, why = False, traceback.format_exc()
        failures = self.merge(0 if well else 1)
        if not well:
            print(f"rank {RANK}: {name} failed {why}", file=sys.stderr, flush=True)
        if RANK == 0:
            print(f"{'OK' if failures == 0 else 'FAIL'} {name}", flush=True)
        self.failed += failures

    def plait_is_loaded(self):
        """The check that the calls go to Plait at all, also if the real NCCL is loaded beside it.

        PyTorch's wheel loads that one by its path, and takes the names of the first."""
        if "PLAIT_NCCL_SO" not in os.environ:
            return

        class Found(ctypes.Structure):
            _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                        ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]

        def first():
            program, found = ctypes.CDLL(None), Found()
            address = ctypes.cast(program.ncclAllReduce, ctypes.c_void_p)
            program.dladdr(address, ctypes.byref(found))
            return os.path.realpath(found.file.decode())

        self.run("NCCL's names are Plait's",
                 lambda: first() == os.path.realpath(os.environ["PLAIT_NCCL_SO"]))

    def end(self):
        """Exits."""
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.flush()
        sys.exit(1 if self.failed else 0)
