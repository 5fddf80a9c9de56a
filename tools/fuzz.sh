#!/usr/bin/env bash
# fuzz.sh [TARGET...]: builds the fuzz targets of tests/fuzz (preset fuzz), all or those named, and lets each look for inputs that fail, for
# PLAIT_FUZZ_SECONDS (60), as many at once as there are cores. Begins with the corpora in tests/fuzz/corpus, and leaves these as they are: what else it found
# worth keeping lies in build-fuzz/corpus/TARGET, an input that fails in build-fuzz/findings. One that fails goes to the corpus of its target
# with the change that puts it right. Installs what libFuzzer needs if it is missing (Debian's or Ubuntu's packages, as root).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${PLAIT_FUZZ_SECONDS:-60}
build=$PWD/build-fuzz
export CC=${CC:-clang} CXX=${CXX:-clang++}

has_libfuzzer() {
  local folder status=0
  folder=$(mktemp -d)
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$folder/empty.cpp"
  "$CXX" -fsanitize=fuzzer,address,undefined "$folder/empty.cpp" -o "$folder/empty" >"$folder/log" 2>&1 || status=1
  rm -rf "$folder"
  return $status
}
if ! has_libfuzzer; then
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends clang libclang-rt-dev || true
  has_libfuzzer || { echo "fuzz: $CXX has no libFuzzer: install clang and its compiler-rt (libclang-rt-dev, or libclang-rt-14-dev)"; exit 1; }
fi

targets=("$@")
if [ ${#targets[@]} = 0 ]; then mapfile -t targets < <(cd tests/fuzz/corpus && ls); fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}"

mkdir -p "$build/findings"
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
fuzz() {  # fuzz TARGET
  local target=$1 status=0
  mkdir -p "$build/corpus/$target"
  "$build/bin/fuzz_$target" "$build/corpus/$target" "tests/fuzz/corpus/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 \
    -artifact_prefix="$build/findings/$target-" -print_final_stats=1 -verbosity=0 </dev/null >"$build/findings/$target.log" 2>&1 || status=$?
  if [ $status != 0 ]; then
    printf '%s: FAILED (%d)\n' "$target" $status
    tail -n 60 "$build/findings/$target.log"
    return 1
  fi
  printf '%s: %s inputs in %s s, none failed\n' "$target" "$(sed -nE 's/^stat::number_of_executed_units: *//p' "$build/findings/$target.log")" "$seconds"
}

running=0 failed=0
for target in "${targets[@]}"; do
  if [ $running -ge "$(nproc)" ]; then wait -n || failed=1; running=$((running - 1)); fi
  fuzz "$target" &
  running=$((running + 1))
done
while [ $running -gt 0 ]; do wait -n || failed=1; running=$((running - 1)); done
exit $failed
