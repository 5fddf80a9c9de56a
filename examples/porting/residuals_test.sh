#!/bin/sh
# residuals_test.sh POINTS RANKS REFERENCE PROGRAM... -- MPIRUN...: each program must solve the
# problem and print the residuals of the first.
points=$1
ranks=$2
shift 2
programs=
while [ "$1" != -- ]; do
  programs="$programs $1"
  shift
done
shift
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
for program in $programs; do
  "$@" "$ranks" "$program" "$points" >"$folder/said" || {
    cat "$folder/said"
    echo "$program has failed"
    exit 1
  }
  cat "$folder/said"
  grep -q "^$ranks ranks, " "$folder/said" || exit 1
  grep '^iteration' "$folder/said" >"$folder/residuals"
  [ -e "$folder/expected" ] || cp "$folder/residuals" "$folder/expected"
  # MPI and Plait add in different orders. The rounding errors of the first residuals, which are
  # larger, are in the last ones, too.
  paste -d ' ' "$folder/expected" "$folder/residuals" | awk -v program="$program" '
    function size(x) { return x < 0 ? -x : x }
    NF != 8 || $2 != $6 || size($4 - $8) > 1e-10 * $4 + 1e-15 { different = 1; print }
    END {
      if (NR == 0 || different) print program " has other residuals than the first"
      exit NR == 0 || different
    }' || exit 1
done
