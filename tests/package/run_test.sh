#!/usr/bin/env bash
# run_test.sh RUN: functions of the script `run` by themselves, with stand-ins for what they ask.
set -euo pipefail
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
take() { eval "$(sed -n "/^$1() {.*}$/p; t; /^$1() {/,/^}/p" "$run")"; }  # take FUNCTION
run=$1
take visible
take gpus
take install_optional
take all_installed
take setup_languages

seen() {  # seen COUNT GPUS [LIST]
  local count
  count=$(visible "${@:2}")
  [ "$count" = "$1" ] || fail "of $2 GPUs ${3+"with the list \"$3\" "}$count are seen, not $1"
}
seen 8 8
seen 0 0
seen 0 8 ""
seen 0 8 -1
seen 2 8 0,3
seen 2 8 "1, 0"
seen 2 8 0,1,-1,2
seen 1 4 3,4,2
seen 1 4 2,,1
seen 0 4 ,1
seen 0 4 NoDevFiles
seen 2 4 GPU-8932f937,MIG-GPU-8932f937/0
seen 2 4 GPU-8932f937,1,none,2
seen 0 0 0
seen 0 0 GPU-8932f937

nvidia-smi() { printf 'GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n'; }
counts=$(unset CUDA_VISIBLE_DEVICES; gpus)
for visible in '' -1 1; do counts+=$(CUDA_VISIBLE_DEVICES=$visible gpus); done
[ "$counts" = 2001 ] || fail "CUDA_VISIBLE_DEVICES"

readonly language_packages=(gfortran python3)
say() { echo "$*"; }
install_command() { echo "install $1"; }
missing_packages() { echo gfortran; }
programs_there() { false; }
may_install() { true; }
install() { false; }
left_out="setup: gfortran can't be had here, so what needs it is left out"
[ "$(setup_languages)" = "setup: install gfortran"$'\n'"$left_out" ] ||
  fail "nobody says that a package could not be installed"
may_install() { false; }
[ "$(setup_languages)" = "$left_out" ] || fail "nobody says that nothing can be installed"
programs_there() { true; }
[ "$(setup_languages)" = "" ] || fail "something is said where the programs are there"
echo passed
