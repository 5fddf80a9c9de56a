#!/usr/bin/env bash
# log_test.sh PROGRAM: NCCL's variables for the log, as the program of tests hears of them.
set -euo pipefail
program=$1
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
# log VARIABLE...: what one small test logs with these variables.
log() {
  env -u PLAIT_LOG "$@" "$program" --gtest_filter=Init.RanksAreThreads:Refusals.NoCommunicator \
    2>&1 >/dev/null
}
has() { grep -qF -- "$2" <<<"$1" || fail "the log lacks '$2': $1"; }
lacks() { ! grep -qF -- "$2" <<<"$1" || fail "the log has '$2': $1"; }

info=$(log NCCL_DEBUG=INFO NCCL_ALGO=Ring NCCL_PROTO=LL)
has "$info" "Plait"
has "$info" "answers NCCL's calls"
has "$info" "NCCL_ALGO=Ring has no effect"
has "$info" "NCCL_PROTO=LL has no effect"
has "$info" "rank 0 of 3: host device 0"  # Plait's own line
has "$info" "the NCCL communicator is NULL"
warn=$(log NCCL_DEBUG=WARN)
has "$warn" "the NCCL communicator is NULL"
lacks "$warn" "answers NCCL's calls"
has "$(log NCCL_DEBUG=VERSION)" "answers NCCL's calls"
[ -z "$(log NCCL_ALGO=Tree)" ] || fail "without NCCL_DEBUG there is a log"
[ -z "$(log NCCL_DEBUG=INFO PLAIT_LOG=off)" ] || fail "PLAIT_LOG does not come first"
echo passed
