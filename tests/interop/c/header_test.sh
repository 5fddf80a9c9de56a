#!/usr/bin/env bash
# header_test.sh SOURCE LIBRARY MPI_LIBRARY FORTRAN CC CXX: plait.h by itself, and what it and
# plait_mpi.h declare compared with what there is: in the two libraries, in the C tests and in the
# Fortran modules, whose generated sources are in FORTRAN.
set -euo pipefail
source=$1 library=$2 mpi_library=$3 fortran=$4 cc=$5 cxx=$6
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

functions_of() {  # functions_of HEADER
  sed -nE 's/^(plait_status|const char\*|int) (plait_[a-z_]+)\(.*/\2/p' "$source/include/plait/$1" |
    sort
}
exports_of() { nm -D --defined-only "$1" | sed -nE 's/^.* T (plait_[a-z_]+)$/\1/p' | sort; }
functions_of plait.h >"$work/declared_alone"
functions_of plait_mpi.h >"$work/declared_mpi"
sort "$work"/declared_{alone,mpi} >"$work/declared"
exports_of "$library" | grep -vx plait_register >"$work/exported"  # that one is for plug-ins in C++
exports_of "$mpi_library" >"$work/exported_mpi"
# What the tests call through the table is there once its macros are expanded. MPI's own headers are
# not needed for that.
mkdir "$work/tests"
cp "$source"/tests/interop/c/*.[ch] "$work/tests"
sed -i '/#include "plait\/plait_mpi.h"/d' "$work"/tests/*
for file in "$work"/tests/*.c; do "$cc" -E -I"$source/include" "$file"; done |
  awk -v tests="$work/tests/" '/^# /{ of_test = index($0, tests) } of_test' |
  grep -oE 'plait_[a-z_]+ ?\(' | tr -d ' (' | sort -u >"$work/tested"
cat "$fortran"/*.f90 "$source/interop/fortran/plait_mpi.f90" |
  sed -nE 's/.*bind\(c, name="(plait_[a-z_]+)"\).*/\1/p' |
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
none "declared, but not exported" declared_alone exported
none "exported, but not declared" exported declared_alone
none "declared in plait_mpi.h, but not exported" declared_mpi exported_mpi
none "exported by libplait-mpi, but not declared" exported_mpi declared_mpi
none "declared, but not in the C tests" declared tested
# MPI's handles are integers in Fortran
printf 'plait_comm_create\n' | sort "$work/fortran" - >"$work/bound"
none "declared, but not in the Fortran module" declared bound
none "in the Fortran module, but not declared" fortran declared
exit $failed
