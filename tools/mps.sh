#!/usr/bin/env bash
# tools/mps.sh RANKS COMMAND...: runs COMMAND, which starts RANKS processes that share one NVIDIA
# GPU, the first visible one, so that they run side by side: a daemon of CUDA's Multi-Process
# Service joins their work, and each process gets an equal share of the multiprocessors. Without the
# service processes take turns of about 2 ms. The daemon has a folder of its own and ends with the
# command. If CUDA_MPS_PIPE_DIRECTORY is set, the daemon of that folder is used and left as it is.
# Changes no setting of the GPU.
set -uo pipefail
fail() { printf 'mps: %s\n' "$*" >&2; exit 2; }
[[ ${1-} =~ ^[1-9][0-9]*$ && $# -gt 1 ]] || fail "usage: tools/mps.sh RANKS COMMAND..."
ranks=$1
shift

if [ -z "${CUDA_MPS_PIPE_DIRECTORY-}" ]; then
  command -v nvidia-cuda-mps-control >/dev/null || fail "there is no nvidia-cuda-mps-control here"
  folder=$(mktemp -d)
  export CUDA_MPS_PIPE_DIRECTORY=$folder/pipe CUDA_MPS_LOG_DIRECTORY=$folder/log
  mkdir "$folder/pipe" "$folder/log"
  end() {
    echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1
    rm -rf "$folder"
  }
  trap end EXIT
  trap 'exit 130' HUP INT PIPE TERM
  first=${CUDA_VISIBLE_DEVICES:-0}
  CUDA_VISIBLE_DEVICES=${first%%,*} nvidia-cuda-mps-control -d || fail "the daemon did not start"
  export CUDA_VISIBLE_DEVICES=0  # clients count the daemon's devices
fi

# Kernels are loaded before one spins: the service would wait for the spinning one.
export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$((100 / ranks)) PLAIT_SHARE_DEVICES=1
export CUDA_MODULE_LOADING=EAGER
"$@" </dev/null
