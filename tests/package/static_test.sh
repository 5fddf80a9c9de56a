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
configure "$source" "$work/plait" -DPLAIT_STATIC=ON -DPLAIT_BENCH=OFF -DPLAIT_EXAMPLES=OFF \
  -DPLAIT_FORTRAN=OFF -DPLAIT_KOKKOS=OFF
compiled() {  # compiled FROM TO: takes over a target's objects
  [ ! -d "$build/CMakeFiles/$1.dir" ] ||
    (cd "$build/CMakeFiles/$1.dir" &&
      find . -name '*.o' -exec cp --parents -t "$work/plait/CMakeFiles/$2.dir" {} +)
}
compiled plait plait_parts
compiled plait_fmt plait_fmt
attempt "$cmake" --build "$work/plait" --target plait/fast
attempt "$cmake" --install "$work/plait" --prefix "$prefix"
[ "$(find "$prefix" -name 'libplait*')" = "$(find "$prefix" -name libplait.a)" ] ||
  fail "not libplait.a alone is installed"

say "find_package"
configure "$source/tests/package/consumer" "$work/c++" -DCONSUMER_STATIC=ON
attempt "$cmake" --build "$work/c++"
run_ranks "$work/c++/consumer" '^OK'
configure "$source/tests/package/consumer/c" "$work/c" "-DCONSUMER_COMPONENTS=c;mpi"
attempt "$cmake" --build "$work/c"
run_ranks "$work/c/consumer" '^OK'

say "an own reduction"
configure "$source/examples/own_reduction" "$work/own"
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
  cp -r "$source/tests/package/consumer" "$work/pkg-config"
  attempt make -C "$work/pkg-config"
  run_ranks "$work/pkg-config/consumer" '^OK'
  attempt make -C "$work/pkg-config/c"
  run_ranks "$work/pkg-config/c/consumer" '^OK'
fi
say "passed"
