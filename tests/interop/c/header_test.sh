#!/usr/bin/env bash
# header_test.sh SOURCE LIBRARY FORTRAN CC CXX: plait.h by itself, and what it declares compared
# with what there is: in the library, in the C tests and in the Fortran module, whose generated
# sources are in FORTRAN.
set -euo pipefail
source=$1 library=$2 fortran=$3 cc=$4 cxx=$5
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Without MPI's header in reach, in the oldest languages that are promised.
echo '#include "plait/plait.h"' >"$work/alone.c"
cp "$work/alone.c" "$work/alone.cpp"
"$cc" -std=c99 -pedantic-errors -Wall -Wextra -Werror -fsyntax-only -I"$source/include" \
  "$work/alone.c"
"$cxx" -std=c++11 -pedantic-errors -Wall -Wextra -Werror -fsyntax-only -I"$source/include" \
  "$work/alone.cpp"

sed -nE 's/^(plait_status|const char\*|int) (plait_[a-z_]+)\(.*/\2/p' \
  "$source"/include/plait/plait{,_mpi}.h | sort >"$work/declared"
# that one is for plug-ins in C++
nm -D --defined-only "$library" | sed -nE 's/^.* T (plait_[a-z_]+)$/\1/p' |
  grep -vx plait_register | sort >"$work/exported"
# What the tests call through the table is there once its macros are expanded. MPI's own headers are
# not needed for that.
mkdir "$work/tests"
cp "$source"/tests/interop/c/*.[ch] "$work/tests"
sed -i '/#include "plait\/plait_mpi.h"/d' "$work"/tests/*
for file in "$work"/tests/*.c; do "$cc" -E -I"$source/include" "$file"; done |
  awk -v tests="$work/tests/" '/^# /{ of_test = index($0, tests) } of_test' |
  grep -oE 'plait_[a-z_]+ ?\(' | tr -d ' (' | sort -u >"$work/tested"
cat "$fortran"/*.f90 | sed -nE 's/.*bind\(c, name="(plait_[a-z_]+)"\).*/\1/p' |
  sort -u >"$work/fortran"

echo "$(wc -l <"$work/declared") functions"
[ "$(wc -l <"$work/declared")" -ge 36 ] || {
  echo "FAILED: the headers were not understood"
  exit 1
}
none() {  # none SENTENCE FIRST SECOND: that the first list has and the second not
  local missing
  missing=$(comm -23 "$work/$2" "$work/$3")
  [ -z "$missing" ] || { printf 'FAILED: %s: %s\n' "$1" "${missing//$'\n'/, }"; failed=1; }
}
none "declared, but not exported" declared exported
none "exported, but not declared" exported declared
none "declared, but not in the C tests" declared tested
# MPI's handles are integers in Fortran
printf 'plait_comm_create\n' | sort "$work/fortran" - >"$work/bound"
none "declared, but not in the Fortran module" declared bound
none "in the Fortran module, but not declared" fortran declared
exit $failed
