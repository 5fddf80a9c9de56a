#!/usr/bin/env bash
# stops_test.sh PROGRAM: fortran_test with the argument "stop", which ignores the status of a call
# that fails. The library must print the error's sentence and stop the program with 1: a program
# that goes on, or that crashes, fails here.
set -uo pipefail
output=$("$1" stop 2>&1)
status=$?
failed=0
if [ "$status" != 1 ]; then
  echo "FAILED: the program ended with $status, not 1"
  failed=1
fi
if ! grep -qx 'plait_barrier: the communicator is NULL' <<<"$output"; then
  echo "FAILED: the sentence is not in the output"
  failed=1
fi
[ "$failed" = 0 ] || printf '%s\n' "$output"
exit "$failed"
