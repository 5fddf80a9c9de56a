// The same program, compiled for CUDA: mpirun -n 2 build-cuda/bin/poisson_cg_cuda --n 256
#include "main.cpp"  // NOLINT(bugprone-suspicious-include): one text for all targets
