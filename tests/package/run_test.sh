#!/usr/bin/env bash
# run_test.sh RUN: functions of the script `run` by themselves, with stand-ins for what they ask.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
take() { eval "$(sed -n "/^$1() {.*}$/p; t; /^$1() {/,/^}/p" "$run")"; }  # take FUNCTION
run=$(realpath "$1")
take visible
take gpus
take install_command
take is_here
take set_up
take setup_for
take progress
take logged
take demo
eval "$(sed -n '/^readonly .*packages=(/,/)/p' "$run")"

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

# How far a build is, by lines of Ninja and of make. One that is short, or has few steps, says less.
lines() { printf '%s\n' "$@"; }
said=$(begun=$((SECONDS - 60)); lines "[0/2] Re-checking" "[1/2] Re-running CMake" noise \
  "[1/9] Building a" "[3/9] Building b" "[4/9] Building c" "[6/9] Linking d" "[9/9] Linking e" |
  progress)
[ "$(sed -E 's/, [0-9]+ s$//' <<<"$said")" = "$(lines "   33 %" "   66 %")" ] ||
  fail "progress of Ninja: $said"
said=$(begun=$((SECONDS - 60)); lines "[  3%] Building a" "[ 70%] Linking b" "[100%] Built c" |
  progress)
[[ $said =~ ^\ \ \ 70\ %,\ [0-9]+\ s$ ]] || fail "progress of make: $said"
[ "$(begun=$SECONDS; lines "[1/2] Building a" "[2/2] Linking b" | progress)" = "" ] ||
  fail "progress of a short build"
if (begun=$SECONDS; logged "$work/log" sh -c 'seq 40; exit 1') >"$work/said" 2>&1; then
  fail "a failure is lost"
fi
[ "$(wc -l <"$work/log")" = 40 ] && [ "$(head -n 1 "$work/said")" = 11 ] &&
  grep -q "^FAILED: this failed, and the lines above are the last of $work/log: sh -c" \
    "$work/said" || fail "a failure does not show the log's end"

# Where the demo runs: on all GPUs, on one that ranks share or that has no peer, or on the host.
demo_runs() {  # demo_runs "PROGRAM RANKS BACKEND, ..." PRESET RANKS: with $mps and $amd
  # shellcheck disable=SC2034
  local preset=$2 ranks=$3 said
  said=$(demo -b 4K | sed -nE \
    's/^(mpi -n|side_by_side) ([0-9]).* --backend ([a-z]+) .* -b 4K$/\1 \2 \3/p' | paste -sd ,)
  [ "$said" = "$1" ] || fail "the demo for $2 with $3 ranks: $said"
}
build() { mkdir -p "build-$preset"; }
peer_environment() { :; }
mpi() { echo "mpi $*"; }
side_by_side() { echo "side_by_side $*"; }
programs_there() { [ -n "$mps" ]; }
amd_gpus() { echo $amd; }
cd "$work"
mps=yes amd=0
demo_runs "mpi -n 4 cuda,mpi -n 4 cuda" cuda 4
demo_runs "side_by_side 4 cuda,side_by_side 4 cuda" cuda 1
demo_runs "mpi -n 2 host,mpi -n 2 host" host 2
demo_runs "mpi -n 2 host,mpi -n 2 host" hip 2
mps='' amd=1
demo_runs "mpi -n 1 cuda,mpi -n 2 host" cuda 1
demo_runs "mpi -n 1 hip,mpi -n 2 host" hip 1

# What the verbs install: where nothing is, a mirror lacks Kokkos, or all is there by other ways.
say() { echo "$*"; }
programs_there() { [ $# = 0 ]; }
tools_work() { [ $# = 0 ] && [ -n "$tools" ]; }
missing_packages() {
  local package
  for package in "$@"; do
    if absent "$package"; then echo "$package"; fi
  done | paste -sd ' '
}
absent() { [[ " $installed " != *" $1 "* ]]; }
may_install() { true; }
install() {
  if [[ " $* " == *" $lacking "* ]]; then return 1; fi
  installed+=" $*" tools=yes
}
installed='' tools='' lacking=none
setup_for demo >"$work/said"
[ "$installed" = " ${packages[*]} ${page_packages[*]}" ] || fail "demo installs$installed"
setup_for sweep >"$work/said"
[ ! -s "$work/said" ] || fail "what is there is installed again"
setup_for test >"$work/said"
for package in "${test_packages[@]}"; do
  if absent "$package"; then fail "test does not install $package"; fi
done
setup_for setup lint docs browser >"$work/said"
for package in "${lint_packages[@]}" "${docs_packages[@]}" "${browser_packages[@]}"; do
  if absent "$package"; then fail "setup does not install $package"; fi
done

installed='' tools='' lacking=libtrilinos-kokkos-dev
setup_for test >"$work/said"
if absent gfortran; then fail "one package that can't be had hinders the others"; fi
grep -qx "setup: $lacking can't be had here, so what needs it is left out" "$work/said" ||
  fail "nobody says that a package could not be installed"
lacking=cmake installed='' tools=''
if (setup_for demo) >"$work/said" 2>&1; then fail "it works without cmake"; fi

may_install() { false; }
lacking=none installed='' tools=yes
left_out="setup: libjs-chart.js can't be had here, so what needs it is left out"
[ "$(setup_for bench)" = "$left_out" ] ||
  fail "nobody says that nothing can be installed"
programs_there() { true; }
[ "$(setup_for docs)" = "" ] || fail "something is said where the programs are there"
tools=''
if (setup_for demo) >"$work/said" 2>&1; then fail "a user may install"; fi
grep -q "^  sudo sh -c 'apt-get update && apt-get install .* cmake .* libtrilinos-kokkos-dev" \
  "$work/said" || fail "a user does not get the command for all verbs"
echo passed
