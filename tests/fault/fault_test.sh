#!/usr/bin/env bash
# fault_test.sh MPIRUN PROGRAM MODE [ALGORITHM [RANK]]: starts three ranks of PROGRAM (fault_ranks),
# of which rank 1 meets with a fault; or four, of which RANK does. The others must end on their own,
# in time, and report the fault; and nothing may be left in /dev/shm. FAULT_NODES=2,1 in the
# environment spreads the ranks over nodes (as_nodes.sh), whose names the reports then have, too.
# Mode `job` kills rank 1, and expects mpirun to end the job: with PLAIT_NET=mpi, nothing else tells
# other nodes.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/run_ranks.sh"
mpirun=$1 program=$2 mode=$3 algorithm=${4-} victim=${5-1}
ranks=$(($# > 4 ? 4 : 3))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
expect() { grep -Eq "$1" "$log" || fail "nothing matches: $1"; }  # expect REGEX
readonly ended='\(process [0-9]+, which has ended\)'
left_behind() { ls /dev/shm 2>/dev/null | grep -i plait | sort; }

one="rank $victim" on_nodes=()
if [ -n "${FAULT_NODES-}" ]; then
  declare -A nodes=([1,1,1]=n1 [2,1]=n0 [1,2]=n1)
  one+=" on node ${nodes[$FAULT_NODES]}"
  on_nodes=("$(dirname "${BASH_SOURCE[0]}")/../support/as_nodes.sh" "$FAULT_NODES")
fi
recovery=--enable-recovery  # mpirun itself leaves the others alone
[ "$mode" != job ] || recovery=--disable-recovery

before=$(left_behind)
run_ranks 40 "$mpirun" --allow-run-as-root --oversubscribe $recovery -n $ranks "${on_nodes[@]}" \
  "$program" "${mode/job/killed}" "$algorithm" "$victim" >"$log" 2>&1
status=$?
cat "$log"
[ $status != 124 ] || fail "the ranks did not end"

case $mode in
  job) tr '\n' ' ' <"$log" | grep -q 'exited on signal 9' || fail "mpirun has not ended the job" ;;
  killed)
    lost="$ended: last call 10, .* by $algorithm"
    [ -z "${FAULT_NODES-}" ] || lost='(is gone: |\(process [0-9]+, which (has ended|is gone)\))'
    for rank in 0 2; do expect "^rank $rank: rank_lost: $one $lost"; done
    ;;
  all_killed) ! grep -q '^rank' "$log" || fail "a rank came through" ;;
  stopped)
    for rank in 0 2; do
      expect "^rank $rank: timeout: $one is missing: in call 11 \($algorithm\)"
      expect "^rank $rank: then timeout: $one is missing"
    done
    expect "^  $one \(process [1-9][0-9]*\): "
    if [ -z "${FAULT_NODES-}" ]; then
      expect "^  rank 1 \(process [0-9]+\): last call 10, "
      expect "^rank 1: then timeout: rank 1 is missing: in call 11"
    fi
    ;;
  inside)
    for ((rank = 0; rank < ranks; rank++)); do
      [ $rank = "$victim" ] ||
        expect "^rank $rank: (timeout: rank $victim is missing: in call 11 \($algorithm\)|no error)"
      expect "^rank $rank: then timeout: rank $victim is missing: in call 11 \($algorithm\)"
    done
    expect "^  rank $victim \(process [0-9]+\): last call 11, "
    expect "^  rank $victim has enqueued call 11, but its process does not answer"
    ;;
  late)
    for rank in 0 2; do
      expect "^rank $rank: timeout: rank 1 is missing: in call 11 \($algorithm\)"
    done
    expect "^  rank 0 \(process [0-9]+, which has ended\): last call 11, "
    for rank in 1 2; do expect "^rank $rank: then timeout: rank 1 is missing: in call 11"; done
    ;;
  main_ended)
    for rank in 0 1 2; do
      for algorithm in pull pairwise_pull; do expect "^rank $rank: $algorithm: no error"; done
    done
    ;;
  unmapped)
    for rank in 0 1 2; do
      place="in (call|message) [0-9]+ \\($algorithm\\) rank [0-2]"
      expect "^rank $rank: invalid_argument: $place can't read from rank 1: the send buffer there"
    done
    ;;
  gone) [ "$(grep -c '^rank -1: no error' "$log")" = 2 ] ||
    fail "not both ranks could destroy the communicator" ;;
  exits)
    for rank in 0 2; do
      expect "^rank $rank: before no error"
      state="process [0-9]+, which is ending and has not destroyed the communicator"
      expect "^rank $rank: rank_lost: $one \($state\): last call 11, "
    done
    [ $status = 0 ] || fail "the exit status is $status"
    ;;
  forks)
    for what in "calls" "destroys" "exit" "failed exec" "exec" "own ranks" "at last"; do
      for rank in 0 1 2; do expect "^rank $rank: $what: went on$"; done
    done
    belongs="belongs to process [0-9]+, and process [0-9]+ was forked from it"
    expect "^rank 1: child reduces: invalid_argument: all_reduce: this communicator $belongs"
    expect "^rank 1: child allocates: invalid_argument: allocate: this communicator $belongs"
    forked="make_mpi_bootstrap: this process was forked from one that uses MPI"
    expect "^rank 1: child makes one of MPI: invalid_argument: $forked"
    expect "^rank 1: child reduces in C: invalid_argument: .*this communicator $belongs"
    expect "^rank 1: child destroys in C: success"
    for end in "calls ends with status 0" "destroys ends with status 0" \
      "exit ends with status 3" "failed exec ends with status 4" "exec ends with status 0" \
      "own ranks ends with status 0" "system: 0" "popen: through"; do
      expect "^rank 1: $end$"
    done
    for rank in 0 1 2; do expect "^rank $rank: destroy: success"; done
    ! grep -q "^plait" "$log" || fail "a rank has something to log"
    [ $status = 0 ] || fail "the exit status is $status"
    ;;
  aborted)
    for rank in 0 2; do expect "^rank $rank: .*rank 1 has aborted the communicator: enough"; done
    for rank in 0 1 2; do expect "^rank $rank: new: no error"; done
    if [ -z "${FAULT_NODES-}" ]; then  # nobody is lost, so MPI is finalised and mpirun content
      for rank in 0 2; do
        expect "^rank $rank: call: aborted: rank 1 has aborted the communicator: enough"
      done
      for rank in 0 1 2; do
        expect "^rank $rank: then aborted: rank 1 has aborted the communicator: enough"
      done
      [ $status = 0 ] || fail "the exit status is $status"
    fi
    ;;
  differs)
    difference="call 11: rank . calls all_reduce of (1000|999) f32 elements, sum, .*; rank . calls "
    if [ "$algorithm" = message ]; then
      difference="message 11 from rank 0 to rank 1: rank 1 receives 999 f32 elements, .*; "
      difference+="rank 0 sends 1000 f32 elements"
    fi
    for rank in 0 1 2; do
      expect "^rank $rank: mismatch: ranks disagree in $difference"
    done
    ;;
  refused)
    why="all_reduce: rank 1: send is null, with count 1000; rank [02] calls all_reduce of"
    for rank in 0 1 2; do
      expect "^rank $rank: mismatch: rank 1's call 11 was refused: $why"
    done
    ;;
  descriptors)
    for rank in 0 1 2; do
      expect "^rank $rank: allocate: [a-z_]+: .*rank 1.*(descriptor|open files)"
      expect "^rank $rank: allocate again: no error"
      expect "^rank $rank: calls after allocate: no error"
    done
    ;;
  memory)
    for rank in 0 1 2; do
      for call in allocate create; do
        expect "^rank $rank: $call: out_of_memory: .*rank 1"
        expect "^rank $rank: $call again: no error"
        expect "^rank $rank: calls after $call: no error"
      done
    done
    ;;
  threads)
    for rank in 0 1 2; do
      expect "^rank $rank: create: backend: .*rank 1: .*thread"
      expect "^rank $rank: create again: no error"
    done
    ;;
  growing)
    what='scratch memory of twoshot_ll128, [0-9]+ bytes'
    for rank in 0 2; do
      if [ "$algorithm" = kill ]; then
        expect "^rank $rank: rank_lost: rank 1 $ended: last call 2, .* by twoshot_ll128"
      else
        expect "^rank $rank: timeout: $what: rank 1 is missing, for 1 s; the communicator is broken"
      fi
    done
    if [ "$algorithm" = stop ]; then
      expect "^  rank 1 \(process [0-9]+\): last call 2, .* by twoshot_ll128"
      for rank in 0 1 2; do
        expect "^rank $rank: then timeout: $what: rank 1 is missing, for 1 s"
      done
    fi
    ;;
  *) fail "there is no mode $mode" ;;
esac
# Other programs' objects vanish sooner or later, so look for a while.
left=$(comm -13 <(echo "$before") <(left_behind))
for ((i = 0; i < 60; i++)); do
  [ -n "$left" ] || exit 0
  sleep 0.5
  left=$(comm -12 <(echo "$left") <(left_behind))
done
fail "left behind: $left"
