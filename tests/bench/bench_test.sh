#!/usr/bin/env bash
# bench_test.sh BIN MPIRUN: plait-bench, plait-tune and plait-info answer wrong requests with one
# sentence, before they measure anything. And the files that they write, with the programs that read
# them.
set -uo pipefail
# shellcheck source=tests/bench/bench_support.sh
. "$(dirname "${BASH_SOURCE[0]}")/bench_support.sh"
refused_by() {  # refused_by COMMAND SENTENCE FLAGS...
  local command=$1 sentence=$2
  shift 2
  if $command "$@"; then fail "taken: $*"; fi
  grep -qF -- "$sentence" "$said" || fail "does not say: $sentence"
  [ "$(grep -Ec '^plait-(bench|tune): ' "$said")" = 1 ] || fail "$*: not one sentence"
  [ ! -s "$out" ] || fail "$*: something was printed before"
}
one() { timeout 60 "$bin/plait-bench" "$@" >"$out" 2>"$said" </dev/null; }
refused() { refused_by bench "$@"; }  # by two ranks
refused_one() { refused_by one "$@"; }  # of any number of ranks, by one: that is sooner

refused "messages of up to 64G: 4 buffers of 2 ranks would take 256.0 GiB of memory, and " -b 1K \
  -e 100G
refused_one "--in-place 1: send_recv has no calls in place" -C send_recv --in-place 1
refused "not expected: args extra -r 0" args extra -r 0
refused "--threads 128: at most 64 on host" --threads 128
refused_one "--in-place 1: barrier has no calls in place" -C barrier --in-place 1
refused_one "--offset 2: it is no multiple of the 4 bytes of f32" --offset 0,2
refused_one "--offset 1: it is no multiple of the 2 bytes of bf16" -d u8,bf16 --offset 1
refused_one "--offset 4: it is no multiple of the 8 bytes of complex_f64" -d complex_f64 --offset 4
refused_one '--offset "8K": expected a number of bytes up to 4096' --offset 8K
refused_one '--collective: unknown collective "allreduce"; known: all, all_reduce' -C allreduce
refused '--algorithms: there is no algorithm "flash_bulk" any more: flash has taken its place' \
  --algorithms flash_bulk
refused_one "-o premul_sum: needs a floating-point or complex type, not i32" -d i32,u8 -o premul_sum
refused_one "-o sum: needs numbers, not bool" -C all_reduce,scan -d bool
refused_one "-o minloc: needs pairs of a value and an index, not f32" -o minloc,maxloc
refused_one "-o avg: scan has no average of the first ranks" -C scan -o avg
bench -C send_recv,all_reduce --in-place 1 -b 1K -e 1K -n 3 -w 0 ||
  fail "what can be in place is not measured"
grep -q all_reduce "$out" || fail "nothing was measured"
timeout 60 "$mpirun" --allow-run-as-root --oversubscribe -n 2 "$bin/plait-bench" --peers mpi,nccl \
  --timing latency --algorithms default,ring,stream -b 1K -e 64K -f 64 -n 3 -w 0 --memory both \
  >"$out" 2>"$said" </dev/null || fail "with peers"
# Without --table: a row per size and memory, the fastest beside the default, and MPI's ratio.
us="+[0-9.]+"
for row in "all_reduce f32 sum  *1K" "all_reduce f32 sum, ordinary  *64K"; do
  grep -qE "^$row $us  [a-z0-9_]+ $us +([0-9.]+  (ring|stream)|-  -) $us ${us}x$" \
    "$out" || fail "no row of $row"
done
[ "$(grep -c '^all_reduce ' "$out")" = 4 ] || fail "other rows than those of sizes and memories"
# Two sizes of floats on two ranks, by three algorithms in two memories and by MPI.
grep -qx "# checked: 0.233 million elements, 0 wrong" "$out" || fail "not everything was checked"
grep -qx "# peer nccl is not measured: NCCL and RCCL need GPUs" "$out" || fail "NCCL on the host"
bench --creation 3 && grep -q '"ranks":2,"nodes":1,.*"creation_us":\[[0-9.e]*,[0-9.e]*,[0-9.e]*\]' \
  "$out" || fail "creation was not measured three times"
bench --version && grep -qx "plait [0-9.]*" "$out" || fail "plait-bench has no version"

refused_one '--preset "fast": expected quick, standard, extensive' --preset fast
# The page shows the flags of each preset as the program has them.
bench --help || fail "--help"
for preset in quick standard extensive; do
  flags=$(grep -A 1 "^ *$preset: " "$out" | tail -n 1 | sed 's/^ *//')
  [ -n "$flags" ] || fail "--help does not show the preset $preset"
  grep -qF "| \`$preset\` | \`$flags\` |" "${BASH_SOURCE[0]%/*}/../../docs/measuring.md" ||
    fail "docs/measuring.md has other flags of the preset $preset"
done
bench --preset quick --dry-run || fail "--dry-run"
grep -q '"bytes":\[1024,32768,1048576\]' "$out" &&
  grep -q '{"collective":"send_recv","type":"f32","at_most":3}' "$out" || fail "the preset quick"
# What is given wins, wherever it stands.
bench -d bf16 --preset quick -C all_gather --algorithms all --memory both --dry-run ||
  fail "--dry-run with other flags"
[ "$(grep -o '"collective"' "$out" | wc -l)" = 1 ] &&
  grep -q '"bytes":\[1024,32768,1048576\]' "$out" &&
  grep -q '"collective":"all_gather","type":"bf16","at_most":[0-9][0-9]' "$out" ||
  fail "a preset wins over flags"

# All types with all operations are as many reductions as --help says.
bench --help || fail "--help"
reductions=$(tr -s ' \n' ' ' <"$out" | sed 's/.*all -o all is \([0-9]*\) reductions.*/\1/')
bench -d all -o all --algorithms default -b 1K -e 1K --dry-run || fail "--dry-run of all types"
[ "$(($(grep -o '"at_most":[0-9]*' "$out" | cut -d : -f 2 | paste -sd +)))" = "$reductions" ] ||
  fail "--help says that there are $reductions reductions"
# Types without the operation are left out where they reduce, and measured where they move.
peers=mpi bench -C all_reduce,all_gather -d bool,i16,complex_f64,f64_i32 -o prod,lxor,minloc \
  --algorithms default --memory ordinary -b 1K -e 1K -n 3 -w 0 || fail "rare types"
for row in "bool  *lxor" "i16  *prod" "i16  *lxor" "complex_f64  *prod" "f64_i32  *minloc"; do
  [ "$(grep -cE "^all_reduce .* $row .* 0$" "$out")" = 2 ] || fail "rows of $row"
done
[ "$(grep -c '^all_reduce .* 0$' "$out")" = 10 ] || fail "reduced rows of rare types"
[ "$(grep -c '^all_gather .* 0$' "$out")" = 8 ] || fail "moved rows of rare types"

# Wrong on one rank alone: the others must not wait for it.
# beside_a_right_one COMMAND...: rank 1 runs it. Not as two programs: mpirun of Open MPI 5.0.7
# crashes with these.
beside_a_right_one() {
  timeout 60 "$mpirun" --allow-run-as-root --oversubscribe -n 2 sh -c \
    '[ $OMPI_COMM_WORLD_RANK = 1 ] || set -- "$0"; exec "$@" -b 1K -e 1K' \
    "$bin/plait-bench" "$@" >"$out" 2>"$said" </dev/null
}
one_wrong() {  # one_wrong SENTENCE COMMAND...
  local sentence=$1
  shift
  beside_a_right_one "$@"
  [ $? = 2 ] || fail "not refused: rank 1 as $*"
  grep -qF "plait-bench: rank 1: $sentence" "$said" || fail "rank 1 does not say: $sentence"
}
one_wrong "not expected: --nonsense" "$bin/plait-bench" --nonsense
one_wrong "PLAIT_PLUGINS: /nowhere.so: it can't be loaded" env PLAIT_PLUGINS=/nowhere.so \
  "$bin/plait-bench"

# Two collectives of one size, of which one reduces.
bench -C all_reduce,all_gather --algorithms default -b 1K -e 1K -n 3 -w 0 --json "$files/json" \
  --csv "$files/csv" || fail "nothing is written"
grep -q '^{"name":.*"op":"sum"' "$files/json" && grep -q '^{"name":.*"op":null' "$files/json" ||
  fail "the JSON's operations, one result per line"
grep -q '^default,all_reduce,f32,sum,' "$files/csv" &&
  grep -q '^default,all_gather,f32,-,' "$files/csv" || fail "the CSV's operations"
python3 "${BASH_SOURCE[0]%/*}/../../tools/bench-table.py" "$files/json" >"$out" ||
  fail "bench-table.py can't read it"
for heading in "2 ranks, all_reduce f32 sum, out of place, symmetric memory, graph" \
  "2 ranks, all_gather f32, out of place, symmetric memory, graph"; do
  grep -A 3 "^$heading:" "$out" | grep -q "^| 1K | [0-9]" || fail "no table of: $heading"
done
timeout 60 "$bin/plait-bench" --devices 2 -C broadcast --root 5 >"$out" 2>"$said"
[ $? = 2 ] && [ "$(cat "$said")" = "plait-bench: options: rank 0: --root 5: there are 2 ranks" ] ||
  fail "a wrong request for two devices"
refused "--devices 3: all ranks live in one process, but 2 were started" --devices 3

# Each call has another root, and all of them are checked.
timeout 60 "$bin/plait-bench" --devices 3 -C broadcast,gather,scatter,all_to_all --rotate-root \
  --algorithms default --peers none -b 64 -e 64 -n 4 -w 0 --json "$files/rotating.json" \
  >"$out" 2>"$said" || { cat "$out" "$said"; fail "--rotate-root"; }
grep -q -- "--rotate-root" "$files/rotating.json" && grep -q ", 0 wrong$" "$out" ||
  fail "--rotate-root is not told, or its calls are not checked"

# A run that is ended early leaves what it has measured: here all but the second size, which takes a
# minute.
timeout 60 "$mpirun" --allow-run-as-root --oversubscribe -n 2 "$bin/plait-bench" --peers none \
  --algorithms default -b 1K -e 64M -f 65536 -n 300 -w 0 -c 0 \
  --csv "$files/early" --json "$files/early.json" >"$out" 2>"$said" </dev/null &
for ((i = 0; i < 400; ++i)); do
  if grep -q '^default,' "$files/early" 2>/dev/null; then break; fi
  sleep 0.1
done
kill $!
wait $! && fail "the run was over before it was ended"
[ "$(grep -c '^default,all_reduce,f32,sum,2,1024,' "$files/early")" = 1 ] &&
  [ "$(wc -l <"$files/early")" = 2 ] || fail "an early end leaves no file"
python3 -m json.tool "$files/early.json" >"$out" || fail "an early end leaves no whole file"

# A pipe gets everything once.
bench --algorithms default -b 1K -e 16K -n 3 -w 0 --csv /dev/stderr || fail "--csv to a pipe"
[ "$(grep -c '^name,collective,' "$said")" = 1 ] || fail "a pipe gets the results again and again"

mkfifo "$files/fifo"
refused "can't write \"$files/fifo\": it is a FIFO that no program reads" --csv "$files/fifo"
refused "can't write \"$files\": Is a directory" --json "$files"

# A disk that is full when everything is measured.
for format in json csv; do
  bench --algorithms default -b 1K -e 1K -n 3 -w 0 --$format /dev/full
  [ $? = 3 ] || fail "--$format: a file that could not be written is no error"
  grep -qF "plait-bench: rank 0: can't write \"/dev/full\": No space left on device" "$said" ||
    fail "--$format: it does not say why"
  grep -q "^# checked: .*, 0 wrong$" "$out" || fail "--$format: the table is lost"
done

# plait-tune measures, the library finds the times by itself, and its check reads them.
tune() {  # tune RANKS FLAGS...
  local status=0 trial
  for trial in 1 2 3; do
    status=0
    run_ranks 120 "$mpirun" --allow-run-as-root --oversubscribe -n "$1" env -u PLAIT_CALIBRATE \
      XDG_CACHE_HOME="$files/cache" "$bin/plait-tune" "${@:2}" >"$out" 2>"$said" || status=$?
    [ $status = 139 ] || [ $status = 125 ] || break
    echo "mpirun crashed or hung (status $status), trial $trial"
  done
  return $status
}
tune 2 -C all_reduce -b 1K -e 4K --seconds 40 || fail "plait-tune"
grep -q "^# [0-9]* times are kept in \"$files/cache/plait/2-ranks-on-.*\.tuned\"$" "$out" ||
  fail "plait-tune does not say where it keeps the times"
grep -q "^plait-tune: [1-9]0 % done, about [0-9]* s left$" "$said" ||
  fail "plait-tune does not tell how far it is"
cp "$files"/cache/plait/*.tuned "$files/times"
grep -qx "all_reduce f32 in:" "$files/times" && grep -q "^ring 1K=[0-9.]* .*4K=" "$files/times" &&
  [ "$(grep -c '^end$' "$files/times")" = 1 ] || { cat "$files/times"; fail "other times"; }
tune 2 --check --sizes 3 -C all_reduce -b 1K -e 4K --seconds 40 || fail "plait-tune --check"
grep -qE "^all  *[0-9.]* [0-9.]* [0-9KM]* [0-9.]* %(, [0-9]* far behind)?$" "$out" &&
  grep -q "^# by [0-9]* plait-tune$" "$out" || fail "the check does not see the times"
tune 2 -C all_reduce -d i32 -b 1K -e 1K --memory ordinary --seconds 40 -o "$files/own" ||
  fail "plait-tune -o"
grep -qx "all_reduce i32 ordinary:" "$files/own" || fail "no times in the file that -o names"
! grep -q "all_reduce i32 in:" "$files/own" || fail "--memory ordinary measures symmetric memory"

# The times of one algorithm alone, because the fastest here may change from run to run.
sed -n '/^plait-times/p; /^for/p; /ordinary:/,/:$/{/ordinary:/p; /^ring/p}' "$files/times" \
  >"$files/ring"
if PLAIT_TUNING=$files/ring bench --algorithms default -b 4K -e 4K -n 1 -w 0; then
  fail "a file that is cut off is taken"
fi
[ "$(grep -c "PLAIT_TUNING=\"$files/ring\": the file is cut off" "$said")" = 1 ] ||
  fail "it does not say that the file is cut off, once"
echo end >>"$files/ring"
PLAIT_TUNING=$files/ring bench --algorithms default -b 4K -e 4K -n 1 -w 0 --memory both ||
  fail "with PLAIT_TUNING"
[ "$(grep -c "default (ring).* ordinary .* 0$" "$out")" = 1 ] || fail "the times were not followed"
if grep -q "default (ring).* symmetric" "$out"; then
  fail "times of ordinary memory were taken in symmetric memory"
fi
PLAIT_TUNING=$files/ring run_ranks 60 "$mpirun" --allow-run-as-root --oversubscribe -n 3 \
  "$bin/plait-bench" -b 1K -e 1K >"$out" 2>"$said"
[ $? = 2 ] && [ "$(grep -c "measured elsewhere: there \"2 ranks on 1 nodes\", here \"3 ranks" \
  "$said")" = 1 ] || fail "times of 2 ranks are taken by 3"
beside_a_right_one env PLAIT_TUNING="$files/ring" "$bin/plait-bench"
[ $? = 2 ] && grep -q "ranks differ in the rules of PLAIT_TUNING: rank 1 has plait-times" "$said" ||
  fail "ranks with different tuning files"
one_tune() { timeout 60 "$bin/plait-tune" "$@" >"$out" 2>"$said" </dev/null; }
two_tune() { tune 2 "$@"; }
refused_by one_tune 'unknown collective "all_red"' -C all_red
refused_by one_tune "--collective barrier: it moves no data" -C barrier
refused_by one_tune "--type bool: it is reduced as u8, so tune that" -d bool
refused_by one_tune "--type f32_i32: times are of sums, and it has none" -d f32_i32
refused_by two_tune "-b 4K is more than -e 1K" -b 4K -e 1K
refused_by one_tune "--sizes requires --check" --sizes 3
refused_by two_tune "can't write \"$files\": Is a directory" -o "$files"
refused_by two_tune "there is no memory for 8 buffers" -e 100G
if tune 1; then fail "one rank has something to tune"; fi
"$bin/plait-tune" --version >"$out" && grep -qx "plait [0-9.]*" "$out" ||
  fail "plait-tune has no version"
"$bin/plait-info" --version >"$out" && grep -qx "plait [0-9.]*" "$out" ||
  fail "plait-info has no version"
run_ranks 60 "$mpirun" --allow-run-as-root --oversubscribe -n 2 \
  "${BASH_SOURCE[0]%/*}/../support/as_nodes.sh" 1 "$bin/plait-info" --world >"$out" &&
  grep -q "^rank 1 of 2: host device 0, .*, on node n1 of 2 nodes, rail 0 of 1 rails, by sockets" \
    "$out" || fail "plait-info --world"
"$bin/plait-info" --ranks 2 >"$out" || fail "plait-info fails"
grep -qx "  minloc maxloc  *for pairs of a value and an index" "$out" ||
  fail "plait-info does not say what operations are for"
grep -qx "  ring  *any  *common  *all_reduce" "$out" &&
  grep -qx "  stream  *any  *all  *all_reduce" "$out" &&
  grep -qx "  direct_push  *any  *all  *all but all_reduce send_recv barrier" "$out" &&
  grep -qx "  direct_copy  *symmetric  *all  *all_gather broadcast all_to_all gather scatter" \
    "$out" && [ "$(grep -c "^  direct_copy " "$out")" = 1 ] ||
  fail "plait-info does not say in one row what an algorithm serves"
grep -qx "  not here: .*rails.*: the ranks are on one node" "$out" &&
  ! grep -q "^  rails " "$out" || fail "plait-info does not group what can't run here"
"$bin/plait-info" --why direct_copy >"$out" &&
  grep -A 3 "^direct_copy for all_gather: " "$out" | tail -n 3 | tr '\n' ' ' |
  grep -q "^  symmetric memory: all   ordinary memory: none     not here: " ||
  fail "plait-info --why does not name the reason"
"$bin/plait-info" --why oneshot_ll >"$out" &&
  grep -qx "  any memory: most: the common types, i16, u16, complex_f32, .*" "$out" ||
  fail "plait-info --why does not name the types"
"$bin/plait-info" --why twoshot_sentinel >"$out" &&
  grep -qx "    not i8 sum .*, u8 sum prod .*: integers have no NaN, .*" "$out" ||
  fail "plait-info --why does not group what is refused by type"
if "$bin/plait-info" --why one 2>"$said"; then fail "plait-info takes any name"; fi
grep -qx "plait-info: --why \"one\": there is no algorithm of that name" "$said" ||
  fail "plait-info does not say that there is no algorithm of a name"
if "$bin/plait-info" one two 2>"$said"; then fail "plait-info takes any words"; fi
grep -qx "plait-info: not expected: one two" "$said" || fail "plait-info does not name the words"
if PLAIT_BACKEND=nonsense "$bin/plait-info" >"$out" 2>"$said"; then
  fail "plait-info takes any PLAIT_BACKEND"
fi
grep -q '"nonsense"' "$said" || fail "plait-info does not name the backend"
if "$bin/plait-info" 2>"$said" >/dev/full; then fail "plait-info does not see a full disk"; fi
if timeout 60 "$bin/plait-bench" -b 1K -e 1K -n 1 -w 0 --peers none 2>"$said" >/dev/full; then
  fail "plait-bench does not see a full disk"
fi
grep -q "can't write the table" "$said" || fail "plait-bench does not say that the disk is full"
