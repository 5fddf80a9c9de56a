#!/usr/bin/env bash
# floors_test.sh SOURCE: tools/check_floors.py passes the repository, and names each wrong
# include of a small repository, by FILE:LINE, and each room that its page lacks.
set -euo pipefail
source=$1
# Without git's list, as in an unpacked archive, the tool can't tell the repository's files.
git -C "$source" rev-parse --is-inside-work-tree >/dev/null 2>&1 || {
  echo "SKIPPED: $source is no repository"
  exit 77
}
check=$source/tools/check_floors.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
expect() {  # expect STATUS SENTENCE ROOT: of check_floors.py on ROOT
  local status=0
  "$check" "$3" >"$work/output" || status=$?
  if [ "$status" != "$1" ] || ! grep -qF -- "$2" "$work/output"; then
    printf 'FAILED: %s, not %s; or not found: %s\n' "$status" "$1" "$2"
    cat "$work/output"
    failed=1
  fi
}

expect 0 ' includes in ' "$source"

root=$work/repository
add() {  # add FILE LINE...: a file with these lines
  mkdir -p "$root/$(dirname "$1")"
  printf '%s\n' "${@:2}" >"$root/$1"
}
mkdir -p "$root"
git -C "$root" init -q
add core/text.hpp '#pragma once'
add bootstrap/meet.hpp '#pragma once' '#include "core/text.hpp"' '#include <vector>'
add algorithms/all_reduce/ring/kernel.hpp '#pragma once' '#include "bootstrap/meet.hpp"'
add algorithms/all_reduce/tree/kernel.hpp '#include "algorithms/all_reduce/tree/steps.hpp"'
add algorithms/all_reduce/tree/steps.hpp '#pragma once'
expect 0 '3 includes in 5 files, 0 wrong' "$root"

add core/up.cpp '#include "core/text.hpp"' '' '  #  include <bootstrap/meet.hpp>'
expect 1 'core/up.cpp:3: core reaches up to bootstrap: bootstrap/meet.hpp' "$root"
rm "$root/core/up.cpp"

add algorithms/all_reduce/tree/across.cpp '' '#include "../ring/kernel.hpp"'
tree=algorithms/all_reduce/tree
expect 1 "$tree/across.cpp:2: $tree reaches across to algorithms/all_reduce/ring" "$root"
expect 1 '1 wrong' "$root"
rm "$root/algorithms/all_reduce/tree/across.cpp"

add nowhere/file.cpp ''
expect 1 'nowhere/file.cpp: in no room' "$root"
rm "$root/nowhere/file.cpp"

mkdir "$root/docs"
page=$root/docs/architecture.md
cp "$source/docs/architecture.md" "$page"
expect 0 ', 0 wrong' "$root"
sed -i '/^| `communicator\/calibration\/` /d; s/^| `core\/` /| `crypt\/` /' "$page"
expect 1 '`communicator/calibration` is not in the table of rooms' "$root"
expect 1 '`crypt` is wrongly in the table of rooms' "$root"
sed '/^| `symm_mem\/` /d' "$source/docs/architecture.md" |
  sed '/^| `tests\/` /a | `symm_mem/` | last |' >"$page"
expect 1 '`symm_mem` is listed above `tests`' "$root"

[ "$failed" = 0 ] && echo passed
exit "$failed"
