#!/usr/bin/env bash
# fuzz.sh [TARGET...]: builds the fuzz targets of tests/fuzz (preset fuzz), all or the named ones.
# Each then searches failing inputs for PLAIT_FUZZ_SECONDS (60), with as many targets at once as
# there are cores. The search begins with the corpora in tests/fuzz/corpus and leaves these as they
# are: new inputs worth keeping go to build-fuzz/corpus/TARGET, failing inputs to
# build-fuzz/findings. The change that corrects a failure adds its input to the target's corpus.
# Installs libFuzzer if it is missing (Debian's or Ubuntu's packages, as root).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${PLAIT_FUZZ_SECONDS:-60}
build=$PWD/build-fuzz
export CC=${CC:-clang} CXX=${CXX:-clang++}

has_libfuzzer() {
  local folder status=0
  folder=$(mktemp -d)
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' \
    >"$folder/empty.cpp"
  "$CXX" -fsanitize=fuzzer,address,undefined "$folder/empty.cpp" -o "$folder/empty" \
    >"$folder/log" 2>&1 || status=1
  rm -rf "$folder"
  return $status
}
if ! has_libfuzzer; then
  apt-get update -q &&
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
      clang libclang-rt-dev || true
  has_libfuzzer || {
    printf 'fuzz: %s has no libFuzzer: ' "$CXX"
    echo "install clang and its compiler-rt (libclang-rt-dev, or libclang-rt-14-dev)"
    exit 1
  }
fi

targets=("$@")
if [ ${#targets[@]} = 0 ]; then mapfile -t targets < <(cd tests/fuzz/corpus && ls); fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)" --target "${targets[@]/#/fuzz_}"

# Prints a finding: from the sanitizer's first line on, because that one says which access was
# wrong, and whose memory it was. A log without a sanitizer's words ends with what matters.
finding() {  # finding LOG
  if grep -qE 'ERROR:|runtime error' "$1"; then
    awk '/ERROR:|runtime error/ { found = 1 } found && ++lines <= 150' "$1"
  else
    tail -n 60 "$1"
  fi
}

mkdir -p "$build/findings"
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
fuzz() {  # fuzz TARGET
  local target=$1 status=0 log=$build/findings/$1.log inputs
  mkdir -p "$build/corpus/$target"
  "$build/bin/fuzz_$target" "$build/corpus/$target" "tests/fuzz/corpus/$target" \
    -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 \
    -artifact_prefix="$build/findings/$target-" -print_final_stats=1 -verbosity=0 \
    </dev/null >"$log" 2>&1 || status=$?
  if [ $status != 0 ]; then
    printf '%s: FAILED (%d)\n' "$target" $status
    finding "$log"
    return 1
  fi
  inputs=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$log")
  printf '%s: %s inputs in %s s, none failed\n' "$target" "$inputs" "$seconds"
}

running=0 failed=0
for target in "${targets[@]}"; do
  if [ $running -ge "$(nproc)" ]; then wait -n || failed=1; running=$((running - 1)); fi
  fuzz "$target" &
  running=$((running + 1))
done
while [ $running -gt 0 ]; do wait -n || failed=1; running=$((running - 1)); done
exit $failed
