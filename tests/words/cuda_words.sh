#!/usr/bin/env bash
# The PTX of each word of backends/device/device.hpp, beside the table in docs/invariants.md. Needs
# no GPU.
#   cuda_words.sh NVCC SOURCE_DIR
set -euo pipefail
nvcc=$1 source=$2
ptx=$(mktemp)
trap 'rm -f "$ptx"' EXIT
for arch in sm_80 sm_90; do
  "$nvcc" -x cu -ptx -arch=$arch -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr -I"$source" \
    -I"$source/include" '-DPLAIT_ISA_HEADER="backends/cuda/ptx.hpp"' -DPLAIT_ISA=plait::cuda::Ptx \
    -o "$ptx" "$source/tests/words/probes.hpp"
  "$source/tests/words/check_words.py" "$source/docs/invariants.md" sm_80 "$ptx"
done
