#!/usr/bin/env bash
# static_test.sh SOURCE BUILD CMAKE MPIEXEC CXX CC: makes the static library of the objects that
# BUILD has compiled, installs it, and uses it by find_package from C++ and C, by pkg-config, and
# with an own reduction, which registers an algorithm and kernels.
set -euo pipefail
source=$1 build=$2 cmake=$3 mpiexec=$4
export CXX=$5 CC=$6 PLAIT_BACKEND=host
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
attempt() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "$*"; }; }
run_ranks() {  # run_ranks PROGRAM REGEX: both ranks say it
  if readelf -d "$1" | grep -F libplait; then fail "$1 wants a shared library"; fi
  "$mpiexec" --allow-run-as-root --oversubscribe -n 2 "$1" </dev/null | tee "$work/said"
  [ "$(grep -cE "$2" "$work/said")" = 2 ] || fail "not both ranks say $2"
}
unset CMAKE_GENERATOR
configure() {
  attempt "$cmake" -S "$1" -B "$2" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release \
    -Dplait_ROOT="$prefix" "${@:3}"
}

say "the library"
# In the place of the compiler: nothing else of a build from nothing is left out.
cat >"$work/ready" <<EOF
#!/bin/sh
for word; do
  if [ "\$last" = -o ]; then object=\$word; fi
  last=\$word
done
ready=$build/\$(echo "\$object" | sed s/plait_parts/plait/)
if [ -f "\$ready" ]; then exec cp "\$ready" "\$object"; fi
exec "\$@"
EOF
chmod +x "$work/ready"
configure "$source" "$work/plait" -DPLAIT_STATIC=ON -DPLAIT_BENCH=OFF -DPLAIT_EXAMPLES=OFF \
  -DPLAIT_FORTRAN=OFF -DPLAIT_KOKKOS=OFF -DCMAKE_CXX_COMPILER_LAUNCHER="$work/ready"
attempt "$cmake" --build "$work/plait" --parallel 2
attempt "$cmake" --install "$work/plait" --prefix "$prefix"
[ "$(find "$prefix" -name 'libplait*' -printf '%f\n' | LC_ALL=C sort | xargs)" = \
  "libplait-mpi.a libplait.a" ] || fail "not libplait.a and libplait-mpi.a alone are installed"

say "find_package"
for components in "" mpi; do
  configure "$source/tests/package/consumer" "$work/c++$components" -DCONSUMER_STATIC=ON \
    -DCONSUMER_COMPONENTS=$components
  attempt "$cmake" --build "$work/c++$components"
  run_ranks "$work/c++$components/consumer" '^OK'
done
for components in c mpi; do
  configure "$source/tests/package/consumer/c" "$work/c $components" \
    -DCONSUMER_COMPONENTS=$components
  attempt "$cmake" --build "$work/c $components"
  run_ranks "$work/c $components/consumer" '^OK'
done

say "MPI's world, in a program that names nothing of libplait-mpi"
mkdir "$work/world"
cat >"$work/world/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(world LANGUAGES CXX)
find_package(plait REQUIRED COMPONENTS mpi)
add_executable(world $source/tests/package/consumer/main.cpp)
target_link_libraries(world PRIVATE plait::mpi)
EOF
configure "$work/world" "$work/world/build"
attempt "$cmake" --build "$work/world/build"
nm -C "$work/world/build/world" >"$work/names"
grep -q 'T plait::make_mpi_bootstrap' "$work/names" || fail "the linker dropped libplait-mpi.a"
run_ranks "$work/world/build/world" '^OK'

say "an own reduction"
configure "$source/examples/own_reduction" "$work/own" -DCMAKE_BUILD_TYPE=Debug  # sooner compiled
attempt "$cmake" --build "$work/own"
run_ranks "$work/own/own_reduction" ', 0 of 1000 rows are wrong'

say "a plug-in is refused"
if "$cmake" -S "$source/examples/plugin" -B "$work/plugin" -Dplait_ROOT="$prefix" >"$work/log" \
  2>&1; then
  fail "CMake takes it"
fi
tr -s ' \n' ' ' <"$work/log" |
  grep -oF "this Plait is a static library, and plug-ins need libplait.so" || {
  cat "$work/log"
  fail "CMake does not say why"
}

if command -v pkg-config >/dev/null; then
  say "pkg-config"
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name plait.pc)")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export PKG_CONFIG_PATH
  for module in plait plait-mpi; do
    cp -r "$source/tests/package/consumer" "$work/by-$module"
    variables=(MODULE=$module)
    if [ $module = plait-mpi ]; then variables+=(FLAGS=-DCONSUMER_CALLS_MPI); fi
    attempt make -C "$work/by-$module" "${variables[@]}"
    run_ranks "$work/by-$module/consumer" '^OK'
    attempt make -C "$work/by-$module/c" "${variables[@]}"
    run_ranks "$work/by-$module/c/consumer" '^OK'
  done
fi
say "passed"
