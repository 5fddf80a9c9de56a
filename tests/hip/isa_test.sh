#!/usr/bin/env bash
# Checks AMD machine code by check_isa.py. ARCHITECTURES are gfx90a, gfx942 or both, with a comma
# between.
#   isa_test.sh library CLANG ARCHITECTURES FILE [check_isa.py's options...]
#     a file of this build
#   isa_test.sh probes CLANG ARCHITECTURES ROCM_ROOT SOURCE_DIR
#     each word of backends/device/device.hpp, by itself
#   isa_test.sh words CLANG ARCHITECTURES ROCM_ROOT SOURCE_DIR
#     the same beside the table of words in docs/invariants.md
#   isa_test.sh wrong CLANG ARCHITECTURES ROCM_ROOT SOURCE_DIR [NAME...]
#     each of wrong_words.hpp is found, by the right rule
set -euo pipefail
fail() { printf 'isa_test: %s\n' "$*" >&2; exit 1; }

# The rules that must find each of wrong_words.hpp, on gfx90a and on gfx942. -: there, this one
# compiles to the right code, because stores have no scope on gfx90a, and loads one bit for both
# agent and system. ?: newer compilers may get it right.
readonly wrong_words='
  release_unwaited    release    release
  release_of_compiler release?   release?
  release_agent       release    release
  release_workgroup   release    release
  release_late        release    release
  acquire_missing     acquire    acquire
  acquire_workgroup   acquire    acquire
  acquire_agent       acquire    acquire
  poll_agent          -          scope
  poll_workgroup      scope      scope
  pause_missing       spin       spin
  sync_unwaited       barrier    barrier
  narrow_copy         width      width
  packet_words        width      release,width
  packet_whole        width      width
  packet_agent        -          scope
  packet_poll_words   width      width
  spilled             scratch    scratch
  called              scratch    scratch
  generic             flat       flat
'

# llvm-objdump of the compiler's LLVM or a newer one: an older one does not know all instructions.
find_objdump() {
  local real version candidate
  real=$(readlink -f "$(command -v "$clang" || true)")
  [ -x "$real" ] || fail "$clang: not found"
  version=$("$clang" -dumpversion)
  for candidate in "$(dirname "$real")/llvm-objdump" "llvm-objdump-${version%%.*}" llvm-objdump; do
    command -v "$candidate" >/dev/null || continue
    [ "$(major_version "$candidate")" -ge "${version%%.*}" ] || continue
    command -v "$candidate"
    return
  done
  fail "no llvm-objdump of LLVM ${version%%.*} or newer beside $real nor on PATH:" \
    "install it (Debian: llvm-${version%%.*}; ROCm: rocm-llvm)"
}
major_version() { "$1" --version | sed -nE 's/.*LLVM version ([0-9]+).*/\1/p'; }

check() { python3 "$here/check_isa.py" --objdump "$objdump" "$@"; }

compile_probes() {  # ARCHITECTURE OUTPUT HEADER ISA [options]
  local arch=$1 output=$2 header=$3 isa=$4
  shift 4
  "$clang" -x hip --offload-arch="$arch" --rocm-path="$rocm" -std=c++20 -O3 -ffp-contract=off \
    -I"$source" -I"$source/include" \
    -include hip/hip_runtime.h "-DPLAIT_ISA_HEADER=\"$header\"" "-DPLAIT_ISA=plait::$isa" \
    --offload-device-only --no-gpu-bundle-output "$@" -o "$output" "$source/tests/words/probes.hpp"
}

check_library() { check --arch "$architectures" "$@"; }

check_probes() {
  local arch
  for arch in ${architectures//,/ }; do
    compile_probes "$arch" "$temporary/probes.$arch" backends/hip/gcn.hpp hip::Gcn
  done
  check --probes --arch "$architectures" "$temporary"/probes.*
}

check_words() {
  local arch
  for arch in ${architectures//,/ }; do
    compile_probes "$arch" "$temporary/words.s" backends/hip/gcn.hpp hip::Gcn -S
    "$source/tests/words/check_words.py" "$source/docs/invariants.md" "${arch%%:*}" \
      "$temporary/words.s"
  done
}

check_wrong() {
  local name on_gfx90a on_gfx942 arch rules write_back selected=" $* " checked=0
  while read -r name on_gfx90a on_gfx942; do
    if [ -z "$name" ] || { [ $# != 0 ] && [[ $selected != *" $name "* ]]; }; then continue; fi
    for arch in ${architectures//,/ }; do
      case ${arch%%:*} in
        gfx90a) rules=$on_gfx90a write_back='buffer_wbl2' ;;
        gfx942) rules=$on_gfx942 write_back='buffer_wbl2 sc0 sc1' ;;
        *) fail "$arch: only gfx90a and gfx942 have rules" ;;
      esac
      [ "$rules" != - ] || continue
      compile_probes "$arch" "$temporary/wrong" tests/hip/wrong_words.hpp "wrong::$name" \
        "-DPLAIT_WRITE_BACK=\"$write_back\""
      printf '%-20s' "$name"
      if [[ $rules == *\? ]] && check --probes "$temporary/wrong" >"$temporary/right"; then
        cat "$temporary/right"
        continue
      fi
      check --probes --expect "${rules%\?}" "$temporary/wrong" ||
        fail "$name on $arch: not found as it should be"
      checked=$((checked + 1))
    done
  done <<<"$wrong_words"
  [ $checked -gt 0 ] || fail "nothing was checked: $*"
  echo "isa_test: $checked wrong versions found"
}

[ $# -ge 4 ] ||
  fail "usage: isa_test.sh COMMAND CLANG ARCHITECTURES ...; see the head of this file"
command=$1 clang=$2 architectures=$3
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
objdump=$(find_objdump)
case $command in
  library) check_library "$@" ;;
  probes | words | wrong)
    rocm=$1 source=$2
    shift 2
    "check_$command" "$@"
    ;;
  *) fail "$command: library, probes, words or wrong" ;;
esac
