#!/usr/bin/env bash
# setuid_test.sh PROGRAM LIBRARY: a setuid program takes no plug-ins, rules, trace files or other
# settings from its caller; a plain one does.
set -uo pipefail
program=$1 library=$2
skip() { echo "SKIPPED: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
[ "$(id -u)" = 0 ] || skip "only root can make a setuid program"
command -v setpriv >/dev/null || skip "there is no setpriv"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
# Another user can read them there. The dynamic linker also looks for the library where the program
# was built; then this copy is not needed.
cp "$program" "$folder/plain"
cp "$program" "$folder/setuid"
chmod 755 "$folder/plain"
chmod 4755 "$folder/setuid"
mkdir -m 777 "$folder/traces"
as_nobody() {
  timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH="$PATH" HOME=/ "$@" 2>&1
}
as_nobody test -r "$library" || skip "another user can't read $library"

expect_secure() { [ "$(head -n 1 <<<"$2")" = "secure $1" ] || {
  [ "$1" = 1 ] && skip "setuid has no effect in $folder"
  fail "$2"
  }
}
run() {  # run EXPECTED VARIABLE=VALUE...: what the plain program says; the other one has no error
  local expected=$1 said
  shift
  said=$(as_nobody "$@" "$folder/plain")
  expect_secure 0 "$said"
  grep -q "$expected" <<<"$said" || fail "plain, $*: $said"
  said=$(as_nobody "$@" "$folder/setuid")
  expect_secure 1 "$said"
  grep -q "^no error" <<<"$said" || fail "setuid, $*: $said"
  warnings=$(grep -c "it ignores RANK, WORLD_SIZE, and is rank 0 of 1" <<<"$said")
}
run "^no error" PLAIT_CHECK=1
run "PLAIT_PLUGINS: /nonexistent.so: " PLAIT_PLUGINS=/nonexistent.so
run "/nonexistent.tuning" PLAIT_TUNING=/nonexistent.tuning
run "PLAIT_ALGO" PLAIT_ALGO=nonexistent
run "^no error" PLAIT_NODE=here
[ "$warnings" = 0 ] || fail "setuid: a launcher is missed that is not there"
run "MASTER_ADDR, MASTER_PORT are not" RANK=1 WORLD_SIZE=2
[ "$warnings" = 1 ] || fail "setuid: $warnings warnings of a launcher that may not be read"
run "PLAIT_LOG" PLAIT_LOG=loudly
run "^no error" PLAIT_TRACE="$folder/traces/trace.json"
[ "$(stat -c %u "$folder/traces/trace.json")" = 65534 ] ||
  fail "the plain program has written no trace"
rm "$folder/traces/trace.json"
as_nobody PLAIT_TRACE="$folder/traces/trace.json" "$folder/setuid" >/dev/null
[ -z "$(ls "$folder/traces")" ] ||
  fail "the setuid program has written a trace where its caller wants it"
grep -rnE '(^|[^_a-z])getenv' \
  "$(dirname "$0")"/../../{core,bootstrap,backends,symm_mem,algorithms,communicator,interop} \
    --include=*.cpp --include=*.hpp --include=*.inc &&
  fail "the library reads the environment in one way: core/environment.hpp"
exit 0
