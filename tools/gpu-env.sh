# . tools/gpu-env.sh : on a GPU machine, sets up Open MPI from gpu-bundle/deps.tar.xz, NCCL from
# wherever it is, and safe settings. $PWD must be the top of the tree. Defines `bundle` (the folder
# BUNDLE, gpu-bundle) and the array `mpi`, and sets PLAIT_BACKEND to cuda unless it is set.
# shellcheck shell=bash
bundle=$PWD/${BUNDLE:-gpu-bundle}
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
[ -d "$bundle/bin" ] ||
  fail "there is no $bundle/bin; make it with tools/gpu-bundle.sh where the target was built."
export DEPS=${DEPS:-/tmp/plait-deps}
if [ ! -f "$DEPS/env.sh" ]; then
  mkdir -p "$DEPS"
  # Python unpacks it on machines without xz.
  tar xJf "$PWD/gpu-bundle/deps.tar.xz" -C "$DEPS" 2>/dev/null ||
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
      "$PWD/gpu-bundle/deps.tar.xz" "$DEPS" ||
    fail "could not unpack deps.tar.xz"
fi
# shellcheck disable=SC1091
. "$DEPS/env.sh"
# MPI only brings the ranks together and is not measured, so it gets settings that work in every
# container.
export OMPI_MCA_plm_rsh_agent=false OMPI_MCA_btl_vader_single_copy_mechanism=none
export CUDA_MODULE_LOADING=EAGER
# No NVLink multicast, even if the caller has asked for it.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export PLAIT_NCCL_LIB=${PLAIT_NCCL_LIB:-$(tools/find-nccl.sh)} PLAIT_BACKEND=${PLAIT_BACKEND:-cuda}
[ -n "$PLAIT_NCCL_LIB" ] || unset PLAIT_NCCL_LIB
mpi=(mpirun --oversubscribe --bind-to none)
