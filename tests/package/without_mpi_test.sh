#!/usr/bin/env bash
# without_mpi_test.sh SOURCE BUILD CMAKE CXX CC: makes Plait as on a machine without MPI, mostly of
# the objects that BUILD has compiled, installs it and uses it: its programs, examples, and programs
# in C++ and C, with ranks that a launcher's environment variables bring together.
set -euo pipefail
source=$1 build=$2 cmake=$3
export CXX=$4 CC=$5 PLAIT_BACKEND=host
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
attempt() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "$*"; }; }
unset CMAKE_GENERATOR
no_mpi=(-G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
  -DMPIEXEC_EXECUTABLE=MPIEXEC_EXECUTABLE-NOTFOUND -Dplait_ROOT="$prefix")

# run_ranks REGEX PROGRAM ARGUMENTS...: two ranks, started as torchrun does it. Both must succeed,
# and `lines` of their lines, by default 2, must match.
run_ranks() {
  local regex=$1 rank children=()
  shift
  for rank in 0 1; do
    env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
      MASTER_PORT=29500 TORCHELASTIC_RUN_ID="$work" timeout 60 "$@" >"$work/said$rank" 2>&1 &
    children+=($!)
  done
  for rank in 0 1; do
    wait "${children[$rank]}" || { cat "$work"/said?; fail "rank $rank of $*"; }
  done
  cat "$work"/said? | grep -E "$regex" | tee "$work/said"
  [ "$(wc -l <"$work/said")" = "${lines:-2}" ] || {
    cat "$work"/said?
    fail "$* does not say $regex"
  }
}

say "the library, and what is made with it"
attempt "$cmake" -S "$source" -B "$work/plait" "${no_mpi[@]}" -DPLAIT_FORTRAN=OFF \
  -DPLAIT_KOKKOS=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
(cd "$build" && find CMakeFiles/plait.dir CMakeFiles/plait_fmt.dir bench examples interop \
  -name '*.o' ! -path '*mpi*' ! -path '*poisson*' \
  -exec cp --parents -t "$work/plait" {} + 2>/dev/null || true)
targets=(plait plait_nccl plait_exact plait_ceiling plait_command_line plait_bench plait-bench
  plait-info plait-tune first two_devices own_reduction slices)
if [ -d "$build/CMakeFiles/plait_fmt.dir" ]; then targets=(plait_fmt "${targets[@]}"); fi
for target in "${targets[@]}"; do
  if grep -q "^$target:" "$work/plait/Makefile"; then
    attempt "$cmake" --build "$work/plait" --target "$target/fast"
  fi
done
attempt "$cmake" --install "$work/plait" --prefix "$prefix"
if find "$prefix" -name '*mpi*' ! -path '*/share/*' | grep .; then
  fail "the files above are for MPI"
fi

say "examples"
run_ranks '^rank [01]: 3$' "$work/plait/bin/first"
run_ranks ', 0 of 1000 rows are wrong' "$work/plait/bin/own_reduction"
PLAIT_PLUGINS=$(find "$work/plait" -name slices.so) PLAIT_ALGO=slices \
  run_ranks '^rank [01]: 3$' "$work/plait/bin/first"
"$work/plait/bin/two_devices" | grep -c ': 3$'
"$work/plait/bin/first" | grep -x 'rank 0: 1'  # alone

if [ -x "$prefix/bin/plait-bench" ]; then
  say "plait-info and plait-bench"
  "$prefix/bin/plait-info" >"$work/info"
  head -n 1 "$work/info"
  lines=1 run_ranks '^# peer mpi is not measured: plait-bench was built without MPI' \
    "$prefix/bin/plait-bench" -b 1K -e 1K -n 3 -w 0 --peers mpi --algorithms default
  grep -q '^# checked: .*, 0 wrong$' "$work/said0" ||
    { cat "$work/said0"; fail "nothing was measured"; }
fi

say "find_package"
for language in . c; do
  attempt "$cmake" -S "$source/tests/package/consumer/$language" -B "$work/in-$language" \
    "${no_mpi[@]}"
  attempt "$cmake" --build "$work/in-$language"
  run_ranks '^OK' "$work/in-$language/consumer"
done
if "$cmake" -S "$source/tests/package/consumer" -B "$work/mpi" "${no_mpi[@]}" \
  -DCONSUMER_COMPONENTS=mpi >"$work/log" 2>&1; then
  fail "there is a component mpi"
fi
tr -s ' \n' ' ' <"$work/log" |
  grep -oE "component mpi is not installed .*, which has c, .*kokkos" ||
  { cat "$work/log"; fail "CMake does not say that there is no component mpi"; }

say "nothing needs MPI"
while read -r file; do
  readelf -d "$file" >"$work/dynamic" 2>/dev/null || continue
  if grep -E 'NEEDED.*(mpi|MPI|open-(rte|pal))' "$work/dynamic"; then fail "$file"; fi
  echo "${file#"$work"/}"
done < <(find "$prefix/bin" "$prefix/lib" "$work/plait/bin" "$work"/in-* -type f \
  \( -perm -u+x -o -name '*.so*' \) ! -name '*.o' ! -path '*/CMakeFiles/*')

say "the tests need it"
if "$cmake" -S "$source" -B "$work/tests" -DPLAIT_MPI=OFF -DPLAIT_TESTS=ON >"$work/log" 2>&1; then
  fail "CMake accepted PLAIT_TESTS=ON"
fi
tr -s ' \n' ' ' <"$work/log" | grep -oF "PLAIT_TESTS=ON needs MPI" ||
  { cat "$work/log"; fail "CMake does not say why"; }
say "passed"
