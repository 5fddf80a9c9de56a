#!/usr/bin/env bash
# subproject_test.sh SOURCE BUILD CMAKE MPIEXEC CXX: a project that has Plait in it by
# add_subdirectory is built, installed, moved and run. The library is not compiled again: the one of
# BUILD is put where that project's build would.
set -euo pipefail
source=$1 build=$2 cmake=$3 mpiexec=$4
export CXX=$5 PLAIT_BACKEND=host
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
unset CMAKE_GENERATOR
make_project() {  # make_project NAME OPTIONS...: makefiles know a target without what it depends on
  "$cmake" -S "$source/tests/package/consumer/subproject" -B "$work/$1" -G "Unix Makefiles" \
    -DCMAKE_BUILD_TYPE=Release -DSUBPROJECT_PLAIT="$source" \
    -DCMAKE_INSTALL_PREFIX="$work/$1-prefix" "${@:2}" >"$work/log" 2>&1 || {
      cat "$work/log"
      fail "the configuration of $1"
    }
  mkdir -p "$work/$1/plait/lib"
  cp -P "$build"/lib/libplait.so* "$work/$1/plait/lib/"
  # A project builds libplait-mpi if a program links it.
  if [[ $* == *SUBPROJECT_MPI=ON* || $* == *PLAIT_INSTALL=ON* ]]; then
    cp -P "$build"/lib/libplait-mpi.so* "$work/$1/plait/lib/"
  fi
  "$cmake" --build "$work/$1" --target consumer/fast >"$work/log" 2>&1 || {
    cat "$work/log"
    fail "$1 was not built"
  }
  "$cmake" --install "$work/$1" ${part:+--component "$part"} >"$work/log" 2>&1 || {
    cat "$work/log"
    fail "the installation of $1"
  }
}

say "the library comes along, and is found"
make_project part
(cd "$work/part-prefix" && find . ! -type d | sort)
mv "$work/part-prefix" "$work/moved"
rm -rf "$work/part"
[ "$(find "$work/moved" ! -type d | wc -l)" = 3 ] ||
  fail "not the program and the library's two names"
run_consumer() {  # run_consumer PREFIX
  "$mpiexec" --allow-run-as-root --oversubscribe -n 2 "$1/bin/consumer" </dev/null |
    tee "$work/said"
  [ "$(grep -c '^OK' "$work/said")" = 2 ] || fail "not both ranks said OK"
}
run_consumer "$work/moved"

say "so does libplait-mpi, for a program that links it"
make_project mpi -DSUBPROJECT_MPI=ON
[ "$(find "$work/mpi-prefix" -name 'libplait-mpi.so.*' | wc -l)" = 2 ] ||
  fail "libplait-mpi was not installed"
mv "$work/mpi-prefix" "$work/moved-mpi"
rm -rf "$work/mpi"
run_consumer "$work/moved-mpi"

say "PLAIT_INSTALL=OFF installs nothing of it, ON all, and where to look is the project's to say"
make_project without -DPLAIT_INSTALL=OFF
[ "$(find "$work/without-prefix" -name '*plait*')" = "" ] || fail "there is something of Plait"
make_project all -DPLAIT_INSTALL=ON -DPLAIT_NCCL=ON -DPLAIT_BENCH=ON
for name in libnccl.so plait-bench plait-info plait-tune; do
  grep "^-- Left out, because it is not built: $name" "$work/log" || fail "nothing of $name"
done
[ -n "$(find "$work/all-prefix" -name plaitConfig.cmake)" ] || fail "there is no CMake package"
# Without the library, because CMake can't write another path into the one of BUILD.
part=Unspecified make_project own -DCMAKE_INSTALL_RPATH=/nowhere
readelf -d "$work/own-prefix/bin/consumer" | grep -F '[/nowhere]' ||
  fail "the project's own CMAKE_INSTALL_RPATH does not count"
say "passed"
