#!/usr/bin/env bash
# bench_test.sh BIN MPIRUN: what plait-bench and plait-info say to wrong requests: one sentence, before anything is measured.
set -uo pipefail
bin=$1 mpirun=$2
out=$(mktemp) said=$(mktemp)
trap 'rm -f "$out" "$said"' EXIT
fail() { echo "FAILED: $*"; cat "$out" "$said"; exit 1; }
export PLAIT_BACKEND=host
bench() { timeout 60 "$mpirun" --allow-run-as-root --oversubscribe -n 2 "$bin/plait-bench" --peers none "$@" >"$out" 2>"$said" </dev/null; }
refused() {  # refused SENTENCE FLAGS...
  local sentence=$1
  shift
  if bench "$@"; then fail "taken: $*"; fi
  grep -qF -- "$sentence" "$said" || fail "does not say: $sentence"
  [ "$(grep -c '^plait-bench: ' "$said")" = 1 ] || fail "$*: not one sentence"
  [ ! -s "$out" ] || fail "$*: something was printed before"
}

refused "messages of up to 64G: 4 buffers of 2 ranks would take 256.0 GiB of memory, and " -b 1K -e 100G
refused "--in-place 1: send_recv has no calls in place" -C send_recv --in-place 1
refused "not expected: args extra -r 0" args extra -r 0
refused "--threads 128: at most 64 on host" --threads 128
refused "--collective barrier: it moves no data" -C barrier
refused '--collective: unknown collective "allreduce"; known: all, all_reduce' -C allreduce
if grep -q "known: .*barrier" "$said"; then fail "a barrier is named among what can be timed"; fi
bench -C send_recv,all_reduce --in-place 1 -b 1K -e 1K -n 3 -w 0 || fail "what can be in place is not measured"
grep -q all_reduce "$out" || fail "nothing was measured"
bench --version && grep -qx "plait [0-9.]*" "$out" || fail "plait-bench has no version"

"$bin/plait-info" --version >"$out" && grep -qx "plait [0-9.]*" "$out" || fail "plait-info has no version"
"$bin/plait-info" --ranks 2 >"$out" || fail "plait-info fails"
[ "$(grep "^  direct_copy .*ordinary memory: nothing" "$out" | sort | uniq -d)" = "" ] || fail "refusals that do not say of which collective"
grep -q "^  direct_copy for all_gather in ordinary memory: nothing: " "$out" || fail "a refusal does not name its collective"
if "$bin/plait-info" one two 2>"$said"; then fail "plait-info takes any words"; fi
grep -qx "plait-info: not expected: one two" "$said" || fail "plait-info does not name the words"
