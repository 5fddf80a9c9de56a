"""An operator of PyTorch: the sum of all ranks' partial results, with residual and RMSNorm.

LIBFUSED_NORM names the library of fused_norm.cpp. Ranks are processes of torchrun or mpirun.
"""

import ctypes as c
import os

import torch

_library = c.CDLL(os.environ["LIBFUSED_NORM"])
_library.fused_norm_open.argtypes = [c.POINTER(c.c_void_p)]
_library.fused_norm.argtypes = ([c.c_void_p, c.c_int] + 4 * [c.c_void_p] + 2 * [c.c_size_t]
                                + [c.c_float, c.c_void_p])
_library.plain_all_reduce.argtypes = [c.c_void_p, c.c_int, c.c_void_p, c.c_void_p, c.c_size_t,
                                      c.c_void_p]
_comm = c.c_void_p()


def _call(function, *arguments):
    function.restype = c.c_char_p
    if text := function(*arguments):
        raise RuntimeError(text.decode())


def open_communicator():
    """Makes the communicator of all ranks. Collective."""
    _call(_library.fused_norm_open, c.byref(_comm))


def _stream(tensor):
    return torch.cuda.current_stream(tensor.device).cuda_stream


@torch.library.custom_op("plait::fused_norm", mutates_args={"residual"})
def fused_norm(partial: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor,
               epsilon: float) -> torch.Tensor:
    """residual += the sum over all ranks of partial; returns its RMSNorm. [token][hidden]."""
    assert all(t.is_contiguous() and t.dtype == partial.dtype
               for t in (partial, residual, weight))
    out = torch.empty_like(partial)
    _call(_library.fused_norm, _comm, partial.dtype == torch.bfloat16, partial.data_ptr(),
          residual.data_ptr(), weight.data_ptr(), out.data_ptr(), partial.shape[0],
          partial.shape[1], epsilon, _stream(partial))
    return out


def all_reduce(tensor, to):
    """The sum over all ranks alone, for comparison."""
    _call(_library.plain_all_reduce, _comm, tensor.dtype == torch.bfloat16, tensor.data_ptr(),
          to.data_ptr(), tensor.numel(), _stream(tensor))
