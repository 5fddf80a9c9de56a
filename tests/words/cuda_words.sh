#!/usr/bin/env bash
# The PTX of each word of backends/device/device.hpp, and the machine code that comes of it, beside
# the table in docs/invariants.md. Needs no GPU. The machine code is read where nvdisasm is: as
# $NVDISASM, beside nvcc, or in PATH.
#   cuda_words.sh NVCC SOURCE_DIR
set -euo pipefail
nvcc=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
nvdisasm=${NVDISASM:-$(PATH=${nvcc%/*}:$PATH command -v nvdisasm || true)}

compile() {  # compile ARCHITECTURE -ptx|-cubin
  "$nvcc" -x cu "$2" -arch="$1" -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr -I"$source" \
    -I"$source/include" '-DPLAIT_ISA_HEADER="backends/cuda/ptx.hpp"' -DPLAIT_ISA=plait::cuda::Ptx \
    -o "$folder/code" "$source/tests/words/probes.hpp"
}
check() {  # check COLUMN FILE
  "$source/tests/words/check_words.py" "$source/docs/invariants.md" "$1" "$2"
}

[ -n "$nvdisasm" ] || echo "the machine code is not read: there is no nvdisasm"
for arch in sm_80 sm_90; do
  compile $arch -ptx
  check sm_80 "$folder/code"
  [ -n "$nvdisasm" ] || continue
  compile $arch -cubin
  "$nvdisasm" -c "$folder/code" >"$folder/sass"
  check "their SASS" "$folder/sass"
done
