#!/usr/bin/env bash
# mistakes_test.sh COMPILER OPTIONS... FILE: the compiler must refuse FILE with exactly the
# sentences in it.
set -euo pipefail
file=${*: -1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if "${@:1:$#-1}" -fsyntax-only -w "$file" >"$work/said" 2>&1; then
  echo "FAILED: the compiler accepts $file"; exit 1
fi
grep -E 'error:' "$work/said" >"$work/errors" || { cat "$work/said"; exit 1; }
awk 'sub(/^ *\/\/ says: /, "") { sentence = $0; next } sentence != "" && /;$/ { print sentence }' \
  "$file" >"$work/sentences"
status=0
while read -r sentence; do
  expected=$(grep -cFx "$sentence" "$work/sentences")
  found=$(grep -cF "plait::kokkos: $sentence" "$work/errors" || true)
  [ "$found" = "$expected" ] || { echo "FAILED: $found times, not $expected: $sentence"; status=1; }
done < <(sort -u "$work/sentences")
if [ "$(wc -l <"$work/errors")" != "$(wc -l <"$work/sentences")" ]; then
  echo "FAILED: $(wc -l <"$work/errors") errors, for $(wc -l <"$work/sentences") mistakes"
  status=1
fi
[ $status = 0 ] || { cat "$work/said"; exit 1; }
echo "$(wc -l <"$work/sentences") mistakes, each with one sentence"
