#!/usr/bin/env bash
# killed_rank_test.sh MPIRUN PROGRAM ALGORITHM: starts three ranks of PROGRAM, of which rank 1 kills itself. Both others must end on their own, in time,
# with a message that names it.
set -uo pipefail
mpirun=$1 program=$2 algorithm=$3
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# --enable-recovery: mpirun itself leaves the others alone.
timeout --kill-after=5 25 "$mpirun" --allow-run-as-root --oversubscribe --enable-recovery -n 3 "$program" "$algorithm" >"$log" 2>&1 </dev/null
status=$?
cat "$log"
[ $status != 124 ] && [ $status != 137 ] || { echo "FAILED: the survivors did not end"; exit 1; }
for rank in 0 2; do
  grep -q "^rank $rank: rank_lost: rank 1 (process [0-9]*, which has ended): last call 10, .* by $algorithm" "$log" ||
    { echo "FAILED: rank $rank did not report the loss of rank 1 in $algorithm"; exit 1; }
done
