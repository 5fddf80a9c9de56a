#!/usr/bin/env bash
# consumer_kernels_test.sh SOURCE BUILD CMAKE GENERATOR MPIEXEC CXX: installs the build folder,
# moves the installation, and builds there what strangers write with Plait's own headers: the
# examples that are projects by themselves, each from a copy of its folder alone, as it is
# installed.
set -euo pipefail
source=$1 build=$2 cmake=$3 generator=$4 mpiexec=$5
export CXX=$6 PLAIT_BACKEND=host
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/moved
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
configure() {
  "$cmake" -S "$work/$1" -B "$work/$1-build" -G "$generator" -Dplait_ROOT="$prefix" "${@:2}" \
    >"$work/log" 2>&1
}
make_project() {  # make_project FOLDER OPTIONS...
  cp -r "$prefix/share/doc/plait/examples/$1" "$work/$1"
  configure "$@" || { cat "$work/log"; fail "$1 was not configured"; }
  "$cmake" --build "$work/$1-build" >"$work/log" 2>&1 || {
    cat "$work/log"
    fail "$1 was not built"
  }
}
run_ranks() { "$mpiexec" --allow-run-as-root --oversubscribe -n "$@" </dev/null; }

"$cmake" --install "$build" --prefix "$work/first" --component runtime >"$work/log" || {
  cat "$work/log"
  fail "the installation"
}
"$cmake" --install "$build" --prefix "$work/first" --component development >"$work/log" || {
  cat "$work/log"
  fail "the installation"
}
mv "$work/first" "$prefix"

say "headers"
kernels=$(dirname "$(find "$prefix" -path '*/kernels/backends/device/device.hpp')")/../..
package=$(dirname "$(find "$prefix" -name plaitConfig.cmake)")
if grep -rlE '#include [<"](fmt|CLI|nlohmann|gtest)/' "$kernels"; then
  fail "the files above include what Plait is made with"
fi
for path in "$work/first" "$source" "$build"; do
  if grep -rlF "$path" "$package" "$kernels"; then
    fail "the files above have the path $path in them"
  fi
done
# All of them at once, where they lie: none includes what is not installed.
(cd "$kernels" &&
  find . -name '*.hpp' ! -path './backends/cuda/*' ! -path './backends/hip/*' \
    ! -path './backends/gpu/*' | sed 's|^./\(.*\)|#include "\1"|') >"$work/all.cpp"
grep -c . "$work/all.cpp"
"$CXX" -std=c++20 -fsyntax-only -I"$kernels" -I"$prefix/include" "$work/all.cpp" ||
  fail "the headers are not complete"

say "the examples, where they are installed"
"$cmake" -S "$prefix/share/doc/plait/examples" -B "$work/examples" -G "$generator" \
  -Dplait_ROOT="$prefix" >"$work/log" 2>&1 || {
  cat "$work/log"
  fail "they were not configured"
}
"$cmake" --build "$work/examples" --target first >"$work/log" 2>&1 || {
  cat "$work/log"
  fail "the first was not built"
}
ctest --test-dir "$work/examples" -R '^example.first$' --no-tests=error </dev/null

say "an own reduction"
make_project own_reduction
run_ranks 3 "$work/own_reduction-build/own_reduction" | tee "$work/said"
[ "$(grep -c ', 0 of 1000 rows are wrong' "$work/said")" = 3 ] ||
  fail "not all three ranks are right"

say "an own kernel"
make_project own_kernel
run_ranks 3 "$work/own_kernel-build/smooth" | tee "$work/said"
grep -qxF 'rank 1: 0.5 1 ... 1.5' "$work/said" || fail "the cells are wrong"
run_ranks 2 "$work/own_kernel-build/softmax" | tee "$work/said"
[ "$(grep -c ': 0 of 20000 values are wrong' "$work/said")" = 2 ] || fail "softmax is wrong"

say "a plug-in"
make_project plugin
PLAIT_PLUGINS=$(find "$work/plugin-build" -name slices.so)
export PLAIT_PLUGINS
cp -r "$source/tests/package/consumer" "$work/consumer"
configure consumer && "$cmake" --build "$work/consumer-build" >>"$work/log" 2>&1 || {
  cat "$work/log"
  fail "the program for the plug-in"
}
PLAIT_ALGO=slices PLAIT_LOG=info run_ranks 2 "$work/consumer-build/consumer" >"$work/said" 2>&1 || {
  cat "$work/said"
  fail "the program with the plug-in"
}
grep -qF "$PLAIT_PLUGINS has been loaded" "$work/said" || fail "the plug-in was not loaded"
[ "$(grep -c '^OK' "$work/said")" = 2 ] || { cat "$work/said"; fail "not both ranks are right"; }
unset PLAIT_PLUGINS

if ! grep -q 'PLAIT_CUDA:BOOL=ON' "$build/CMakeCache.txt"; then
  say "a target that this Plait does not have"
  if configure own_reduction -DPLAIT_CUDA=ON; then fail "CMake accepted PLAIT_CUDA=ON"; fi
  tr -s ' \n' ' ' <"$work/log" | grep -oF "component kernels can't be used: PLAIT_CUDA=ON" || {
    cat "$work/log"
    fail "CMake does not say why"
  }
fi
say "passed"
