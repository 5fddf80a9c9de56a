#!/usr/bin/env bash
# fault_setup_test.sh MPIRUN PROGRAM HOW WHERE [FIRST [COUNT]]: COUNT times (1), three ranks of
# PROGRAM (fault_ranks) create, split, duplicate or allocate (WHERE; "any": each in turn) over and
# over, and one of them is killed or stopped (HOW) at a random moment, which the numbers from FIRST
# (0) on give. The others must end within the deadline of a second, plus a second, and name it, and
# no other, as the one that is missing. HOW may be kill_without_deadline: within two seconds all the
# same. WHERE may be idup: in MPI_Comm_idup itself; and HOW, there, hold: the rank only sleeps. By
# hand: fault_setup_test.sh mpirun build-host/bin/fault_ranks kill any 0 60
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/run_ranks.sh"
mpirun=$1 program=$2 how=$3 where=$4 first=${5-0} count=${6-1}
wheres=(create split duplicate allocate)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
export PLAIT_SCRATCH_BYTES=16M  # committing more takes its time on a busy machine
fail() { echo "FAILED: $how $place $number: $*"; cat "$log"; failed=1; }

for ((number = first; number < first + count; number++)); do
  place=$where
  [ "$where" != any ] || place=${wheres[$((number % 4))]}
  victim=$((number % 3))
  run_ranks 40 "$mpirun" --allow-run-as-root --oversubscribe --enable-recovery -n 3 \
    "$program" setup "$how" "$place" "$number" >"$log" 2>&1
  status=$?
  [ -z "${VERBOSE-}" ] || cat "$log"
  if [ $status = 124 ]; then fail "the ranks did not end"; continue; fi
  since=$(sed -n "s/^victim $victim at \([0-9.]*\) .*/\1/p" "$log")
  for ((rank = 0; rank < 3; rank++)); do
    [ $rank != $victim ] || continue
    line=$(grep "^rank $rank at" "$log")
    at=$(sed -n "s/^rank $rank at \([0-9.]*\): .*/\1/p" <<<"$line")
    if [ -z "$at" ] || [ -z "$since" ]; then fail "rank $rank says nothing"; continue; fi
    awk -v a="$at" -v s="$since" 'BEGIN { exit !(a - s <= 2) }' ||
      fail "rank $rank took $at - $since s"
    # The blamed ranks: "rank 1 (process ...) ...", "rank 1 did not arrive", "ranks 0, 1 did not
    # arrive", "got no descriptor from rank 1", "rank 1 ended".
    blame='rank_lost: rank [0-9]+|ranks? [0-9, ]+ (did not arrive|is missing|ended)'
    blame+='|from ranks? [0-9, ]+( within|:)|to ranks? [0-9, ]+ within'
    blamed=$(grep -Eo "($blame)" <<<"$line" |
      grep -Eo '[0-9]+' | sort -u | tr '\n' ' ')
    [ "$blamed" = "$victim " ] || fail "rank $rank blames \"$blamed\": $line"
  done
done
exit $failed
