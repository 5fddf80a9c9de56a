#!/usr/bin/env bash
# plugin_test.sh BIN MPIEXEC SLICES NOTHING TWIN OLD IDLE: what PLAIT_PLUGINS does, with the
# programs in BIN and five plug-ins: one that is right, one that registers nothing, one whose
# algorithm's name is taken, one for another version, and one whose algorithm is wrong.
set -euo pipefail
bin=$1 mpiexec=$2 slices=$3 nothing=$4 twin=$5 old=$6 idle=$7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
with() { PLAIT_PLUGINS=$1 "${@:2}"; }
ranks() { "$mpiexec" --allow-run-as-root --oversubscribe "$@" </dev/null 2>&1; }

expect() {  # expect TEXT: in what was said
  tr -s ' \n' ' ' <"$work/said" | grep -qF -- "$1" || { cat "$work/said"; fail "nobody says: $1"; }
}
# [preload=FILE] refused PLUGINS SENTENCE...: plait-info, FILE a part of it, ends with an error, one
# line that has all of these
refused() {
  if with "$1" timeout 20 env LD_PRELOAD="${preload-}" "$bin/plait-info" >"$work/out" \
    2>"$work/said"; then
    fail "PLAIT_PLUGINS=$1 was taken"
  fi
  [ "$(grep -c . "$work/said")" = 1 ] || { cat "$work/said"; fail "not one line"; }
  cat "$work/said"
  for sentence in "${@:2}"; do expect "$sentence"; done
}

printf '== listed, chosen, right\n'
"$bin/plait-info" >"$work/said"
if grep '^  slices ' "$work/said"; then fail "slices are there without a plug-in"; fi
with "$slices:$slices" "$bin/plait-info" >"$work/said"  # twice does no harm
expect "slices symmetric common all_reduce"
expect "slices is a plug-in's: $slices"
# nor does it that the process has them anyway
with "$slices" env LD_PRELOAD="$slices" "$bin/plait-info" >"$work/said"
expect "slices is a plug-in's: $slices"
with "$slices" "$bin/plait-info" --json >"$work/said"
expect "\"plugin\": \"$slices\""
PLAIT_ALGO=slices with "$slices" ranks -n 2 "$bin/first" >"$work/said" || {
  cat "$work/said"
  fail "the first program"
}
expect "rank 1: 3"
with "$slices" ranks -n 3 "$bin/plait-bench" --algorithms slices -b 4 -e 256K -f 16 -n 20 -d \
  f32,bf16 --in-place both --timing events --peers none \
  --csv "$work/table.csv" >"$work/said" || { cat "$work/said"; fail "the benchmark"; }
grep -c slices "$work/table.csv"
with "$slices" "$bin/zoo_test" --gtest_filter='*slices*n3:*slices*n4:-*Large*' >"$work/said" || {
  cat "$work/said"
  fail "the zoo"
}
tail -n 1 "$work/said"
if grep -q 'Running 0 tests' "$work/said"; then fail "the zoo does not have slices"; fi
with "$slices" "$bin/rank_order_test" --gtest_filter='*n3' >"$work/said" || {
  cat "$work/said"
  fail "slices do not reduce in rank order"
}

printf '== wrong, so the tuner leaves it out\n'
status=0
with "$idle" ranks -n 2 "$bin/plait-tune" -C all_reduce -b 1K -e 1K --memory symmetric \
  --seconds 40 -o "$work/times" >"$work/said" || status=$?
[ $status = 1 ] || { cat "$work/said"; fail "a wrong result: exit code $status"; }
expect "plait-tune: idle with 1 blocks of 1 threads is wrong and left out: all_reduce f32,"
grep -q '^twoshot 1K=' "$work/times" || fail "the times of others are lost"
if grep -q '^idle' "$work/times"; then fail "the times of a wrong algorithm are kept"; fi

printf '== refused\n'
refused "$work/missing.so" \
  "PLAIT_PLUGINS: $work/missing.so: it can't be loaded: No such file or directory"
echo "no shared object" >"$work/text.so"
refused "$slices:$work/text.so" "PLAIT_PLUGINS: $work/text.so: it can't be loaded: file too short"
refused "$nothing" "PLAIT_PLUGINS: $nothing: it registers no algorithm"
for library in libm.so.6 "$bin/../lib/libplait.so"; do  # what the process has anyway is no plug-in
  refused "$slices:$library" "PLAIT_PLUGINS: $library: it registers no algorithm"
done
preload=$old refused "$old" "$old: it is made for Plait 0.0.9, and this is Plait " "compile it anew"
refused "$twin" "PLAIT_PLUGINS: $twin: an algorithm named ring is registered already for all_reduce"
refused "$old" "PLAIT_PLUGINS: $old: it is made for Plait 0.0.9, and this is Plait " \
  "compile it anew"
refused "$slices::$slices" "PLAIT_PLUGINS=\"$slices::$slices\": a file without a name"

printf '== refused: damaged, and what is no file\n'
# Cut short anywhere, as by a full disk: one sentence, and not the death by SIGBUS of a process that
# touches what is mapped beyond the file's end.
size=$(stat -Lc %s "$slices")
for ((part = 63; part >= 1; part -= 3)); do
  if [ $part = 63 ]; then cp "$slices" "$work/cut.so"; fi
  truncate -s $((size * part / 64)) "$work/cut.so"
  end="the file ends after $((size * part / 64)) bytes"
  refused "$work/cut.so" "PLAIT_PLUGINS: $work/cut.so: it can't be loaded: $end" >/dev/null
done
for bytes in $((size - 1)) 4096 512 100 64 63 16 1 0; do
  head -c $bytes "$slices" >"$work/cut.so"
  refused "$work/cut.so" "PLAIT_PLUGINS: $work/cut.so: it can't be loaded: "
done
mkdir "$work/folder"
head -c 4096 "$slices" >"$work/folder/cut_by_name.so"  # found as the dynamic linker does
LD_LIBRARY_PATH=$work/folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} refused cut_by_name.so \
  "PLAIT_PLUGINS: cut_by_name.so: it can't be loaded: the file ends after 4096 bytes"
# A block that never reached the disk, with the dynamic section in it.
section=$(readelf -lW "$slices" | awk '$1 == "DYNAMIC" { print $2 }')
cp "$slices" "$work/zeros.so"
dd if=/dev/zero of="$work/zeros.so" bs=1 seek=$((section)) count=512 conv=notrunc 2>/dev/null
refused "$work/zeros.so" \
  "PLAIT_PLUGINS: $work/zeros.so: it can't be loaded: its dynamic section names no symbols"
mkfifo "$work/fifo.so"
refused "$work/fifo.so" \
  "PLAIT_PLUGINS: $work/fifo.so: it can't be loaded: it is a FIFO, not a regular file"
refused "$work/folder" \
  "PLAIT_PLUGINS: $work/folder: it can't be loaded: it is a directory, not a regular file"
refused $'/\e[2J' 'PLAIT_PLUGINS: /\x1b[2J: it can'"'t be loaded: No such file or directory"

printf '== refused by communicators, on all ranks\n'
# The shells end well, because mpirun ends all processes once one has failed.
with "$old" ranks -n 2 sh -c '! "$0" || echo "not refused"' "$bin/first" >"$work/said" || true
if grep "not refused" "$work/said"; then
  fail "a communicator with a plug-in for another version"
fi
said=$(grep -o "rank 0: PLAIT_PLUGINS: $old: it is made for Plait 0.0.9" "$work/said" | wc -l)
[ "$said" = 2 ] || {  # perhaps on one line
  cat "$work/said"
  fail "not both ranks say so"
}
# Not as two programs: mpirun of Open MPI 5.0.7 crashes with these.
if ranks -n 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] || export PLAIT_PLUGINS="$1"; "$0"' \
  "$bin/first" "$slices" >"$work/said"; then
  fail "a plug-in on one of two ranks"
fi
differ="ranks differ in the algorithms of programs and plug-ins"
expect "$differ: rank 1 has none, rank 0 has all_reduce:slices"
printf 'passed\n'
