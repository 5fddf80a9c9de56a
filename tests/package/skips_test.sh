#!/usr/bin/env bash
# skips_test.sh CHECK_SKIPS: the tool finds every kind of skip in CTest's files and in
# logs. It fails on a skip that its list lacks, and on an entry that no skip matches.
set -euo pipefail
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
expect() {  # expect STATUS SENTENCE ARGUMENT...: of the tool with the list
  local status=0
  "$check" --list "$work/list" "${@:3}" >"$work/output" 2>&1 || status=$?
  if [ "$status" != "$1" ] || ! grep -qE -- "$2" "$work/output"; then
    printf 'FAILED: %s, not %s; or not found: %s\n' "$status" "$1" "$2"
    cat "$work/output"
    failed=1
  fi
}
list() { printf '%s\n' "# a comment" "" "$@" >"$work/list"; }

# What GoogleTest and the zoo print, here with a log message in between.
cat >"$work/gtest.log" <<'END'
LEFT OUT: broadcast.by.pull: only ranks on CPUs read each other
[ RUN      ] All/Ring.Works/n2
[       OK ] All/Ring.Works/n2 (3 ms)
[ RUN      ] All/Ring.Works/n9
/somewhere/ring_test.cpp:12: Skipped
9 ranks need as many devices; there are 2
plait: rank 0: a message
[  SKIPPED ] All/Ring.Works/n9 (0 ms)
[ RUN      ] Ring.HasNoReason
[  SKIPPED ] Ring.HasNoReason (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] All/Ring.Works/n9
[  SKIPPED ] Ring.HasNoReason
END
# Under mpirun.
escape=$'\e'
sed -E "s/^(\[.{10}\]) (.*)$/$escape[0;32m\1 $escape[m\2/" "$work/gtest.log" >"$work/mpi.log"
{
  echo '<testsuite><testcase name="ring" status="run"><system-out>'
  sed "s/$escape/[NON-XML-CHAR-0x1B]/g" "$work/mpi.log"
  echo '</system-out></testcase>'
  echo '<testcase name="setuid" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
  echo '<system-out>SKIPPED: only root can make a setuid program</system-out></testcase>'
  echo '<testcase name="off" status="disabled"><system-out>Disabled</system-out></testcase>'
  echo '</testsuite>'
} >"$work/tests.xml"

everything=('cuda always *.by.pull only ranks on CPUs*'
  'cuda sometimes All/Ring.Works/* * ranks need as many devices; there are *'
  'host,cuda always Ring.HasNoReason *')
list "${everything[@]}"
expect 0 '^skipped on cuda: 3$' --complete cuda "$work/gtest.log"
expect 0 '^ +1  9 ranks need as many devices; there are 2: All/Ring.Works/n9$' \
  cuda "$work/gtest.log"
expect 0 '^skipped on cuda: 3$' --complete cuda "$work/mpi.log"
for i in 0 1 2; do
  list "${everything[@]:0:i}" "${everything[@]:i+1}"
  names=(broadcast.by.pull All/Ring.Works/n9 Ring.HasNoReason)
  expect 1 "^not in .*: ${names[$i]}: " cuda "$work/gtest.log"
done
list "${everything[@]}"
expect 1 '^not in .*: broadcast.by.pull: only ranks on CPUs' host "$work/gtest.log"
list "${everything[@]:0:2}" 'cuda always Ring.HasNoReason another reason'
expect 1 '^not in .*: Ring.HasNoReason: $' cuda "$work/gtest.log"

list "${everything[@]}" 'cuda always setuid only root *' 'cuda always off Disabled'
expect 0 '^skipped on cuda: 5$' --complete cuda "$work/tests.xml"
list "${everything[@]}" 'cuda always off Disabled'
expect 1 '^not in .*: setuid: only root can make a setuid program$' cuda "$work/tests.xml"
list "${everything[@]}" 'cuda always setuid *'
expect 1 '^not in .*: off: Disabled$' cuda "$work/tests.xml"

list "${everything[@]}" 'cuda always Tree.Works *' 'cuda sometimes Chain.Works *'
expect 1 "list:6: skips nothing: Tree.Works: \*$" --complete cuda "$work/gtest.log"
expect 0 '^skipped on cuda: 3$' cuda "$work/gtest.log"
list "${everything[@]}" 'host always Tree.Works *'
expect 0 '^skipped on cuda: 3$' --complete cuda "$work/gtest.log"

list "${everything[@]}" 'cuda elsewhere setuid only root *' 'cuda always off Disabled'
expect 0 '^skipped on cuda: 5$' cuda "$work/tests.xml"
expect 1 '^not in .*: setuid: only root can' --complete cuda "$work/tests.xml"

list 'cuda now Tree.Works *'
expect 1 'list:3: now is none of always, sometimes, elsewhere' cuda "$work/gtest.log"
list 'cuda,dsp always Tree.Works *'
expect 1 'list:3: dsp is none of host, cuda, hip' cuda "$work/gtest.log"
list 'cuda always Tree.Works'
expect 1 'list:3: it is TARGETS WHEN TEST REASON' cuda "$work/gtest.log"
list "${everything[@]}"
expect 1 'nothing.log: No such file' cuda "$work/nothing.log"

# The repository's own list can be read.
list=$(dirname "$check")/../tests/skips.txt
: >"$work/empty.log"
for target in host cuda hip; do
  "$check" --list "$list" $target "$work/empty.log" >/dev/null || failed=1
done

[ "$failed" = 0 ] && echo passed
exit "$failed"
