#!/usr/bin/env bash
# tests/nccl/run.sh LIBNCCL [RANKS...]: runs the scripts of this folder on Plait's libnccl.so.2,
# with 1, 2 and 4 ranks, on as many GPUs as there are: where ranks outnumber them, side by side on
# the first one (tools/mps.sh). Prints a line per script, and the end of the output of one that
# fails.
#
#   OUT=out      folder for the outputs
#   LIMIT=200    seconds for one script
#   SCRIPTS      names of scripts (all)
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -f "${1-}" ] || { echo "usage: tests/nccl/run.sh LIBNCCL [RANKS...]" >&2; exit 2; }
PLAIT_NCCL_SO=$(readlink -f "$1")
shift
out=${OUT:-out}
mkdir -p "$out"
export PLAIT_NCCL_SO PLAIT_TEST_SECONDS=${LIMIT:-200} XLA_PYTHON_CLIENT_PREALLOCATE=false
# No NVLink multicast, even if the caller has asked for it.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
[ "$gpus" -gt 0 ] || { echo "nccl: nvidia-smi lists no GPU" >&2; exit 2; }
failed=0

has() { python3 -c "import importlib.util as u, sys; sys.exit(u.find_spec('$1') is None)"; }

# script NAME LIBRARY RANKS COMMAND...
script() {
  local name=$1 library=$2 ranks=$3 start=$SECONDS status=0 log
  shift 3
  if [ -n "${SCRIPTS-}" ] && [[ " $SCRIPTS " != *" ${name%% *} "* ]]; then return; fi
  log=$out/nccl-${name// /}-$ranks.log
  if ! has "$library"; then
    printf 'nccl: %-40s skipped: no %s here\n' "$name, $ranks ranks" "$library"
    return
  fi
  if [ "$ranks" -gt "$gpus" ]; then set -- "$here/../../tools/mps.sh" "$ranks" "$@"; fi
  timeout -k 10 $((${LIMIT:-200} + 20)) "$@" >"$log" 2>&1 </dev/null || status=$?
  printf 'nccl: %-40s %4d s, %3d checks passed%s\n' "$name, $ranks ranks" $((SECONDS - start)) \
    "$(grep -c '^OK' "$log")" "$([ $status = 0 ] || echo ", FAILED: exit $status")"
  if [ $status != 0 ]; then
    failed=$((failed + 1))
    grep -E '^FAIL|^rank|Error|error' "$log" | head -n 12 | cut -c1-200 | sed 's/^/    | /'
  fi
}
rank_script() {  # rank_script "NAME ARGUMENTS" LIBRARY RANKS
  local words
  read -ra words <<<"$1"
  script "$1" "$2" "$3" python3 -m torch.distributed.run --standalone --nproc-per-node "$3" \
    "$here/${words[0]}.py" "${words[@]:1}"
}

for ranks in ${*:-1 2 4}; do
  rank_script torch_tour torch "$ranks"
  rank_script "torch_tour --eager --nonblocking" torch "$ranks"
  rank_script torch_ddp torch "$ranks"
  rank_script torch_fsdp2 torch "$ranks"
  rank_script torch_windows torch "$ranks"
  rank_script "torch_bits reproducible" torch "$ranks"
  rank_script "torch_bits reproducible_tree" torch "$ranks"
  rank_script cupy_calls cupy "$ranks"
  rank_script jax_collectives jax "$ranks"
  if [ "$ranks" -gt 1 ]; then
    rank_script torch_failures torch "$ranks"
    script torch_killed torch "$ranks" python3 "$here/torch_killed.py" "$ranks"
  fi
done
[ "$failed" = 0 ]
