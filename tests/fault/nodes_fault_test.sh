#!/usr/bin/env bash
# nodes_fault_test.sh MPIRUN PROGRAM SIZES MODE [ALGORITHM]: starts three ranks of PROGRAM
# (fault_ranks) on nodes of these SIZES, of which rank 1 meets with a fault. The others must end on
# their own, in time, and report the fault with the names of the rank and its node. Mode `job` kills
# rank 1, and expects mpirun to end the job: with PLAIT_NET=mpi, nothing else tells other nodes.
set -uo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/../support/run_ranks.sh"
mpirun=$1 program=$2 sizes=$3 mode=$4 algorithm=${5-}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
expect() { grep -Eq "$1" "$log" || fail "nothing matches: $1"; }  # expect REGEX
declare -A nodes=([1,1,1]=n1 [2,1]=n0 [1,2]=n1)
readonly one="rank 1 on node ${nodes[$sizes]}"
readonly lost='is gone: |\(process [0-9]+, which (has ended|is gone)\)'

recovery=--enable-recovery
[ "$mode" != job ] || recovery=--disable-recovery
run_ranks 40 "$mpirun" --allow-run-as-root --oversubscribe $recovery -n 3 \
  "$here/../support/as_nodes.sh" "$sizes" "$program" "${mode/job/killed}" "$algorithm" >"$log" 2>&1
status=$?
cat "$log"
[ $status != 124 ] || fail "the ranks did not end"

case $mode in
  job) expect 'exited on signal 9' ;;
  killed) for rank in 0 2; do expect "^rank $rank: rank_lost: $one ($lost)"; done ;;
  stopped)
    for rank in 0 2; do
      expect "^rank $rank: timeout: $one is missing: in call 11 \($algorithm\)"
      expect "^rank $rank: then timeout: $one is missing"
    done
    expect "^  $one \(process [1-9][0-9]*\): "
    ;;
  exits)
    for rank in 0 2; do
      expect "^rank $rank: before no error"
      state="process [0-9]+, which is ending and has not destroyed the communicator"
      expect "^rank $rank: rank_lost: $one \($state\): last call 11, "
    done
    [ $status = 0 ] || fail "the exit status is $status"
    ;;
  gone) [ "$(grep -c '^rank -1: no error' "$log")" = 2 ] ||
    fail "not both ranks could destroy the communicator" ;;
  aborted)
    for rank in 0 2; do expect "^rank $rank: .*rank 1 has aborted the communicator: enough"; done
    for rank in 0 1 2; do expect "^rank $rank: new: no error"; done
    ;;
  differs)
    if [ "$algorithm" = message ]; then
      ends="rank 1 receives 999 f32 elements, .*; rank 0 sends 1000 f32 elements"
      for rank in 0 1 2; do
        expect "^rank $rank: mismatch: ranks disagree in message 11 from rank 0 to rank 1: $ends"
      done
      exit
    fi
    calls="all_reduce of (1000|999) f32 elements, sum, .*"
    for rank in 0 1 2; do
      expect "^rank $rank: mismatch: ranks disagree in call 11: rank . calls $calls; rank . calls "
    done
    ;;
  refused)
    why="all_reduce: rank 1: send is null, with count 1000; rank [02] calls all_reduce of"
    for rank in 0 1 2; do
      expect "^rank $rank: mismatch: rank 1's call 11 was refused: $why"
    done
    ;;
  *) fail "there is no mode $mode" ;;
esac
