#!/usr/bin/env bash
# Reads the PTX of flash: copies are asynchronous, by 16 bytes and past the L1, three stages stay on
# their way, and signals are releases and acquires at system scope. Then that of direct_push, for
# its releases: one for each slot or barrier, and none for each element. Needs no GPU.
#   flash_ptx_test.sh NVCC SOURCE_DIR
set -euo pipefail
nvcc=$1 source=$2
ptx=$(mktemp)
trap 'rm -f "$ptx"' EXIT
status=0

expect() {  # expect PATTERN: at least one instruction
  local found
  found=$(grep -cE "$1" "$ptx" || true)
  printf '%4d  %s\n' "$found" "$1"
  [ "$found" -gt 0 ] || status=1
}

compile() {  # compile FILE
  "$nvcc" -ptx -arch=sm_80 -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr -I"$source" \
    -I"$source/include" -o "$ptx" -x cu "$1"
}
releases() {  # releases COUNT...: so many in each kernel; any other fence counts as 100
  local found
  found=$(awk '/\.entry/ { ++n } /st\.release\.sys/ { ++r[n] } /fence|membar/ { r[n] += 100 }
    END { for (i = 1; i <= n; ++i) printf "%s%s", (i > 1 ? " " : ""), r[i] + 0 }' "$ptx")
  printf 'releases: %s\n' "$found"
  [ "$found" = "$*" ] || status=1
}

compile "$source/tests/cuda/flash_probe.cu"
expect '^\s*cp\.async\.cg\.shared\.global \[%r[0-9]+\], \[%rd[0-9]+\], 16;'
expect '^\s*cp\.async\.commit_group;'
expect '^\s*cp\.async\.wait_group 3;'
expect '^\s*ld\.shared\.v4\.u32'
expect '^\s*ld\.global\.v4\.u32'
expect '^\s*st\.global\.v4\.u32'
expect '^\s*st\.release\.sys\.global\.u32'
expect '^\s*ld\.acquire\.sys\.global\.u32'
releases 3
compile <(sed 's|all_reduce/flash|one_hop/direct_push|; s/flash/direct_push/g' \
  "$source/tests/cuda/flash_probe.cu")
releases 1 2

[ $status = 0 ] || echo "flash_ptx_test: not the instructions that should be there"
exit $status
