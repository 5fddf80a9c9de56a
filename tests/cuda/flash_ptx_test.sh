#!/usr/bin/env bash
# Reads the PTX of flash: copies are asynchronous, by 16 bytes and past the L1, two stages stay on
# their way, and signals are releases and acquires at system scope. And of flash_bulk: copies are
# bulk copies on sm_90, with the fences that they need; sm_80 has none. Needs no GPU.
#   flash_ptx_test.sh NVCC SOURCE_DIR
set -euo pipefail
nvcc=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0

read_ptx() {  # read_ptx PROBE ARCHITECTURE: what `expect` looks at from now on
  ptx=$folder/$1.$2.ptx
  "$nvcc" -ptx -arch="$2" -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr -I"$source" \
    -I"$source/include" \
    -o "$ptx" "$source/tests/cuda/$1.cu"
  echo "$1, $2"
}
count() { grep -cE "$1" "$ptx" || true; }
expect() {  # expect PATTERN: at least one instruction
  printf '%4d  %s\n' "$(count "$1")" "$1"
  [ "$(count "$1")" -gt 0 ] || status=1
}
expect_none() {
  printf '%4d  %s (none)\n' "$(count "$1")" "$1"
  [ "$(count "$1")" = 0 ] || status=1
}
expect_barriers() {
  expect '^\s*ld\.global\.v4\.u32'
  expect '^\s*st\.global\.v4\.u32'
  expect '^\s*st\.release\.sys\.global\.u32'
  expect '^\s*ld\.acquire\.sys\.global\.u32'
}

read_ptx flash_probe sm_80
expect '^\s*cp\.async\.cg\.shared\.global \[%r[0-9]+\], \[%rd[0-9]+\], 16;'
expect '^\s*cp\.async\.commit_group;'
expect '^\s*cp\.async\.wait_group 2;'
expect '^\s*ld\.shared\.v4\.u32'
expect_barriers
expect_none 'cp\.async\.bulk'

read_ptx flash_bulk_probe sm_80
expect_none 'cp\.async'
expect_none 'st\.release'

read_ptx flash_bulk_probe sm_90
expect '^\s*mbarrier\.init\.shared::cta\.b64 \[%r[0-9]+\], 1;'
expect '^\s*fence\.proxy\.async;'
expect '^\s*mbarrier\.try_wait\.parity\.shared::cta\.b64'
expect '^\s*ld\.shared\.v4\.u32'
expect_barriers
expect_none 'cp\.async\.cg'
copy='cp\.async\.bulk\.shared::cluster\.global\.mbarrier::complete_tx::bytes'
expect "^\s*$copy"' \[%r[0-9]+\], \[%rd[0-9]+\], %r[0-9]+, \[%r[0-9]+\];'
# Each copy right after its fence and the arrival that says how many bytes come; whatever the
# acquire saw lies before the fence for all memory.
awk '
  /^[ \t]*(fence|mbarrier|cp\.async)/ {
    ready = last ~ /mbarrier\.arrive\.expect_tx/ && before_last ~ /fence\.proxy\.async\.shared::cta/
    if (/cp\.async\.bulk/ && !ready) wrong = 1
    if (/fence\.proxy\.async;/ && !(acquired && last ~ /mbarrier\.init/)) wrong = 1
    before_last = last; last = $0
  }
  /ld\.acquire\.sys/ { acquired = 1 }
  END { exit wrong }' "$ptx" || { echo "a fence is not where it should be"; status=1; }

[ $status = 0 ] || echo "flash_ptx_test: not the instructions that should be there"
exit $status
