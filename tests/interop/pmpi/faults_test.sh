#!/usr/bin/env bash
# faults_test.sh MPIRUN LIBRARY PROGRAM FAULT HANDLER: three ranks of a program of MPI's, of which
# rank 1 is killed or stopped. The others end with Plait's sentence, as their error handler says.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../support/run_ranks.sh"
mpirun=$1 library=$2 program=$3 fault=$4 handler=$5
log=$(mktemp)
trap 'rm -f "$log"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
deadline=()  # MPI has none, so a rank that stops is waited for unless the user sets one
[ "$fault" = killed ] || deadline=(PLAIT_TIMEOUT=2)
run_ranks 40 "$mpirun" --allow-run-as-root --oversubscribe --enable-recovery -n 3 env \
  LD_PRELOAD="$library" "${deadline[@]}" "$program" "$fault" "$handler" >"$log" 2>&1
status=$?
cat "$log"
[ $status != 124 ] || fail "the ranks did not end"
sentence='rank 1 \(process [0-9]+, which has ended\)'
[ "$fault" = killed ] || sentence='rank 1 is missing: in call 11'
if [ "$handler" = return ]; then
  for rank in 0 2; do
    grep -Eq "^rank $rank: class MPI_ERR_OTHER: .*$sentence" "$log" ||
      fail "rank $rank has no error"
  done
else
  tr '\n' ' ' <"$log" | grep -Eq "$sentence" || fail "the sentence is missing"
  grep -q 'MPI_ERRORS_ARE_FATAL' "$log" || fail "MPI has not ended the job"
  ! grep -q '^rank [02]: class' "$log" || fail "a rank went on"
fi
