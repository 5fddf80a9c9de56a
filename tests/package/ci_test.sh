#!/usr/bin/env bash
# ci_test.sh SOURCE: the table from files to steps in .ci/steps.sh names functions and files that
# are there, kernels call for every target, and .ci/run finds the changes in all kinds of clones.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
if ! git -C "$source" rev-parse --git-dir >/dev/null 2>&1; then
  echo "SKIPPED: $source is no repository"
  exit 77
fi
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a \
  GIT_COMMITTER_EMAIL=a

# The table itself.
(
  cd "$source"
  . .ci/steps.sh
  for row in "${by_files[@]}"; do
    read -r function pattern <<<"$row"
    declare -F "$function" >/dev/null || fail "$function is no function"
    git ls-files | grep -E "$pattern" >/dev/null || fail "$function: no file is like $pattern"
  done
)
expect() {  # expect "STEP..." FILE...
  local found
  found=$("$source/.ci/run" --steps "${@:2}" | sort | paste -sd' ')
  [ "$found" = "$1" ] || fail "${*:2}: '$found', not '$1'"
}
while read -r kernel; do
  found=$("$source/.ci/run" --steps "$kernel")
  for step in cuda hip race_tests; do
    grep -qx $step <<<"$found" || fail "$kernel does not call for $step"
  done
done < <(cd "$source" && git ls-files 'algorithms/*kernel.hpp')
expect "hip" backends/hip/ipc.cpp
expect "cuda" backends/cuda/ptx.hpp
expect "cuda hip" backends/gpu/gpu_words.hpp
expect "address_tests race_tests" backends/host/host_words.hpp
expect "documentation" README.md
expect "" tools/report.py tests/unit/words_test.cpp
expect "cuda documentation" docs/nodes.md backends/cuda/ptx.hpp

# The changes: on a branch, on main, and in a clone that knows no older commit.
mkdir -p "$work/plait/backends/hip" "$work/plait/docs"
cp -r "$source/.ci" "$work/plait/"
cd "$work/plait"
git init -q -b main .
commit() {  # commit FILE HOURS: HOURS before noon of a day
  local date
  date=$(date -u -d "2026-01-10 12:00 UTC - $2 hours" '+%s +0000')
  echo "$2" >"$1"
  git add -A
  GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date git commit -qm "$1"
}
changes() { ./.ci/run --steps | paste -sd' '; }
expect_changes() { [ "$(changes)" = "$1" ] || fail "$2: '$(changes)', not '$1'"; }
commit backends/hip/ipc.cpp 30
expect_changes hip "the first commit"
commit docs/nodes.md 20
commit run 0
expect_changes documentation "main, within a day"
git update-ref refs/remotes/origin/main HEAD~1
expect_changes "" "a branch"
git update-ref refs/remotes/origin/main HEAD
expect_changes documentation "main, as origin has it"
echo 1 >CMakeLists.txt
expect_changes "documentation configure_errors" "a file that is new"
