#!/usr/bin/env bash
# names_test.sh LIBRARY FUNCTIONS_HPP READELF: what libnccl.so.2 is to the dynamic linker: the names
# that it offers, what it needs, and its own name.
set -euo pipefail
library=$1 functions=$2 readelf=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$work/offered"
{
  grep -oE 'F\([A-Za-z* ]+, nccl[A-Za-z0-9]+' "$functions" | sed 's/.*, //'
  sed -nE 's/^ +ROW\(([A-Za-z]+), [a-z].*/nccl\1\nnccl\1Config/p' "$functions"
} | sort >"$work/declared"
diff "$work/declared" "$work/offered" || fail "names are only declared (<) or only offered (>)"
[ "$(wc -l <"$work/offered")" -eq 97 ] || fail "$(wc -l <"$work/offered") names: NCCL 2.32 has 97"
# A version would be a part of the name.
if grep -q '@' "$work/offered"; then fail "a name has a version"; fi

"$readelf" -d "$library" >"$work/dynamic"
grep -q 'SONAME.*\[libnccl\.so\.2\]' "$work/dynamic" || fail "the SONAME is not libnccl.so.2"
grep -q 'NEEDED.*\[libplait\.so\.' "$work/dynamic" || fail "it does not need libplait.so"
if grep -E 'NEEDED.*(libmpi|libcudart|libcuda)' "$work/dynamic"; then fail "it needs that"; fi
grep -qE '(RUNPATH|RPATH).*\$ORIGIN' "$work/dynamic" || fail "it does not look beside itself"
# A program may load it late, when the loader's reserve of static thread-local memory is used up.
if grep STATIC_TLS "$work/dynamic"; then fail "it has static thread-local memory"; fi
echo passed
