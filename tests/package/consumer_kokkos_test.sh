#!/usr/bin/env bash
# consumer_kokkos_test.sh SOURCE BUILD CMAKE GENERATOR MPIEXEC CXX KOKKOS_DIR: installs the build
# folder and uses its component kokkos as a stranger would, with the Kokkos of this machine.
set -euo pipefail
source=$1 build=$2 cmake=$3 generator=$4 mpiexec=$5 kokkos=$7
export CXX=$6 PLAIT_BACKEND=host
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
configure() {  # configure NAME OPTIONS...
  "$cmake" -S "$source/tests/package/consumer_kokkos" -B "$work/$1" -G "$generator" \
    -Dplait_ROOT="$prefix" "${@:2}" >"$work/$1.log" 2>&1
}
expect() { grep -qF "$2" "$work/$1.log" || { cat "$work/$1.log"; fail "no line of $1 says: $2"; }; }

say "install"
"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log" || {
  cat "$work/install.log"
  fail "the installation"
}
for header in "$source"/interop/kokkos/include/plait/{,kokkos/}*.hpp; do
  [ -f "$prefix/include/${header#*/include/}" ] || fail "${header#*/include/} is not installed"
done

say "find_package, build and run"
configure cmake -DKokkos_DIR="$kokkos" || { cat "$work/cmake.log"; fail "find_package"; }
grep 'Kokkos::kokkos:' "$work/cmake.log"
"$cmake" --build "$work/cmake" >"$work/build.log" 2>&1 || {
  cat "$work/build.log"
  fail "the consumer was not built"
}
"$mpiexec" --allow-run-as-root --oversubscribe -n 2 "$work/cmake/consumer_kokkos" </dev/null |
  tee "$work/said"
[ "$(grep -c '^OK' "$work/said")" = 2 ] || fail "not both ranks said OK"

say "Kokkos found before"
configure first -DKokkos_DIR="$kokkos" -DCONSUMER_KOKKOS_FIRST=ON || {
  cat "$work/first.log"
  fail "find_package after find_package(Kokkos)"
}

say "no Kokkos"
if configure none -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON; then
  fail "CMake finds a Kokkos that it must not look for"
fi
tr -s ' \n' ' ' <"$work/none.log" |
  grep -oF "component kokkos can't be used: plait could not be found because dependency Kokkos" ||
  { cat "$work/none.log"; fail "CMake does not say that Kokkos is missing"; }
configure optional -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON -DCONSUMER_OPTIONAL=kokkos || {
  cat "$work/optional.log"
  fail "an optional component is missing"
}
expect optional "plait_kokkos_FOUND: FALSE"

# The folder that a Kokkos names for its headers is changed only if they are not in it.
# stranger NAME INCLUDE_FOLDER: a package that names this folder, beside headers in include/trilinos
stranger() {
  mkdir -p "$work/$1-kokkos/include/trilinos" "$work/$1-kokkos/lib/cmake/Kokkos" "$2"
  touch "$work/$1-kokkos/include/trilinos/Kokkos_Core.hpp"
  cat >"$work/$1-kokkos/lib/cmake/Kokkos/KokkosConfig.cmake" <<EOF
add_library(Kokkos::kokkos INTERFACE IMPORTED)
set_property(TARGET Kokkos::kokkos PROPERTY INTERFACE_INCLUDE_DIRECTORIES "$2")
set(Kokkos_INCLUDE_DIRS \${CMAKE_CURRENT_LIST_DIR}/../../../include/trilinos)
EOF
  configure "$1" -DKokkos_DIR="$work/$1-kokkos/lib/cmake/Kokkos" || {
    cat "$work/$1.log"
    fail "a Kokkos that names $2"
  }
}
say "a Kokkos that names a wrong folder for its headers, and one that names its own"
stranger wrong "$work/empty"
expect wrong "Kokkos::kokkos: $work/wrong-kokkos/include/trilinos"
mkdir "$work/right"
touch "$work/right/Kokkos_Core.hpp"
stranger own "$work/right"
expect own "Kokkos::kokkos: $work/right"
say "passed"
