#!/usr/bin/env bash
# tools/gpu-sanitize.sh: runs compute-sanitizer over the kernels of all algorithms that the GPUs can
# run, on a machine with NVIDIA GPUs and with the folder that tools/gpu-bundle.sh made beside
# tools/. memcheck and synccheck see ranks that are processes, which take turns if there is only one
# GPU; racecheck sees only shared memory. Takes about 4 minutes. The exit code says whether any step
# failed. The logs go to OUT=out.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
out=${OUT:-out}
mkdir -p "$out"
# shellcheck source=tools/gpu-env.sh
. tools/gpu-env.sh
command -v compute-sanitizer >/dev/null ||
  fail "there is no compute-sanitizer on PATH; CUDA brings it."
export PLAIT_SHARE_DEVICES=1 PLAIT_TIMEOUT=60
failed=0 steps=0

step() {  # step SECONDS TOOL RANKS TESTS
  local limit=$1 tool=$2 ranks=$3 tests=$4 start=$SECONDS status=0
  local log=$out/sanitize-$((++steps)).log
  timeout -k 10 "$limit" "${mpi[@]}" -n "$ranks" \
    compute-sanitizer --tool "$tool" --error-exitcode 9 \
    "$bundle/bin/mpi_zoo_test" --gtest_filter="$tests" --gtest_color=no \
    >"$log" 2>&1 </dev/null || status=$?
  if ! grep -q '^\[       OK \]' "$log"; then status=1; fi  # the filter may match no test
  [ "$status" = 0 ] || failed=$((failed + 1))
  printf '%-10s %d ranks, %-40s %4d s  %s\n' "$tool" "$ranks" "$tests" $((SECONDS - start)) \
    "$([ "$status" = 0 ] && echo ok || echo "FAILED: exit $status")"
}

step 240 memcheck 2 '*AllTypes*'
step 180 memcheck 3 '*AllTypes*/all_reduce*'
step 60 synccheck 2 '*AllCounts/all_reduce*'
step 120 racecheck 2 '*AllCounts/all_reduce_flash*:*AllCounts/all_reduce_stream'
tools/check_skips.py --list "$bundle/skips.txt" cuda "$out"/sanitize-*.log || failed=$((failed + 1))
echo "failed steps: $failed"
[ "$failed" = 0 ]
