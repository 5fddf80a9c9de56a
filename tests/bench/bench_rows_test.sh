#!/usr/bin/env bash
# bench_rows_test.sh BIN MPIRUN: the rows that plait-bench measures, in its table and in its files:
# single calls, the barrier, unaligned buffers, and ranks of one process.
set -uo pipefail
# shellcheck source=tests/bench/bench_support.sh
. "$(dirname "${BASH_SOURCE[0]}")/bench_support.sh"

for timing in graph latency; do
  bench -C all_reduce,all_gather --algorithms default -b 1K -e 1K -n 3 -w 0 --timing $timing \
    --statistics --json "$files/json" --csv "$files/csv" || fail "statistics of $timing"
  samples=$([ $timing = latency ] && echo 21 || echo 7)  # 7 repeats, of 3 calls
  [ "$(grep -cE "^all_.* 0( +[0-9.]+){5} +$samples$" "$out")" = 2 ] || fail "samples of $timing"
  python3 "$here/files_check.py" "$files/json" "$files/csv" 2 || fail "the figures of $timing"
done

# A barrier has one row per contender, whatever the sizes, types, kinds of memory and places.
peers=mpi bench -C all_reduce,barrier --algorithms default,barrier -b 1K -e 16K -d f32,i32 \
  --memory both --in-place both -n 3 -w 0 --json "$files/json" --csv "$files/csv" ||
  fail "a barrier"
[ "$(grep -c '^barrier  *0  *0  *-  *-  [a-z]' "$out")" = 3 ] || fail "rows of the barrier"
for name in "default (barrier)" barrier peer:mpi; do
  grep -qE "^barrier .* ${name//[()]/.} .*  - *-  *-  *0$" "$out" || fail "no barrier of $name"
  grep -q "{\"name\":\"${name% (*}\",\"collective\":\"barrier\",.*\"wrong\":0" "$files/json" ||
    fail "the JSON has no barrier of $name"
done
python3 "$here/files_check.py" "$files/json" "$files/csv" 2 ||
  fail "the figures of the barrier's files"

# Calls with a count per rank, in one row for each place that they have, beside MPI's.
counted=all_gather_v,all_to_all_v,gather_v,scatter_v,neighbor_all_to_all_v,reduce_scatter_v
peers=mpi bench -C all_gather,all_to_all,gather,scatter,send_recv,reduce_scatter \
  --algorithms $counted -b 8 -e 3000 -f 375 -d f32 --in-place both -n 3 -w 0 \
  --json "$files/json" --csv "$files/csv" || fail "calls with counts"
for name in ${counted//,/ }; do
  rows=$([[ $name =~ ^(all_to|neighbor) ]] && echo 2 || echo 4)
  [ "$(grep -cE "^[a-z_]+ .* $name .* 0$" "$out")" = "$rows" ] || fail "rows of $name"
done
# MPI's reduce-scatter in place has its result elsewhere, and neighbours have no place.
for row in all_gather:4 all_to_all:4 gather:4 scatter:4 send_recv:2 reduce_scatter:2; do
  [ "$(grep -cE "^${row%:*} .* peer:mpi-v .* 0$" "$out")" = "${row#*:}" ] ||
    fail "MPI's rows of ${row%:*}"
done

# One-sided calls, alone and in groups; not in ordinary memory.
bench -C send_recv --algorithms put,get -b 8 -e 3000 -f 375 -d f32 -n 3 -w 0 \
  --memory symmetric,attached,ordinary --messages 2 --group both || fail "one-sided calls"
for name in 'put x2' 'put x2 grouped' 'get x2' 'get x2 grouped'; do
  [ "$(grep -cE "^send_recv .* $name  .* 0$" "$out")" = 4 ] || fail "rows of $name"
done

# Blocks of a reduce-scatter are not cut.
timeout 60 "$bin/plait-bench" --table \
  -C reduce_scatter --algorithms default,reduce_scatter_v --messages 4 -b 64K -e 64K -n 3 -w 0 \
  --memory ordinary --peers none >"$out" 2>"$said" || fail "a reduce-scatter of one rank in pieces"
[ "$(grep -cE "^reduce_scatter .* 0$" "$out")" = 1 ] &&
  grep -q "^reduce_scatter .* default x4 " "$out" ||
  fail "blocks were cut"

# Unaligned buffers, in both places. The largest size, because memory ends behind it.
bench -C all_reduce,all_gather --algorithms default,ring -b 1K -e 16K -f 16 -d f32 --memory both \
  --in-place both --offset 0,4,4096 -n 3 -w 0 --json "$files/json" --csv "$files/csv" ||
  fail "unaligned buffers"
for place in out out+4 out+4096 in in+4 in+4096; do
  [ "$(grep -cE "^all_.* ${place/+/[+]} .* 0$" "$out")" = 12 ] || fail "rows $place"
done
[ "$(grep -c '"offset_bytes":4,' "$files/json")" = 24 ] || fail "the JSON's offsets"
python3 "$here/files_check.py" "$files/json" "$files/csv" 2 ||
  fail "the figures of unaligned buffers"
python3 "$here/../../tools/bench-table.py" "$files/json" >"$out" &&
  grep -q "^2 ranks, all_reduce f32 sum, in place + 4 bytes, ordinary memory, graph:" "$out" ||
  fail "no table of unaligned buffers"

# Two cells with rivals, of which one loses 50 % without `slow`, and one cell without rivals.
while read -r name bytes time; do
  printf '{"name":"%s","bytes":%d,"time_us":%d,"chosen":"slow"}\n' "$name" "$bytes" "$time"
done <<<"fast 8 2
slow 8 3
slow 16 2
fast 16 3
peer:mpi 16 1
gather_v 16 1
default 16 1
default 32 1" | paste -sd, | sed 's/.*/{"results":[&]}/' >"$files/json"
python3 "$here/../../tools/bench-table.py" --wins "$files/json" --without slow,other >"$out" &&
  grep -q "^| 2 cells |" "$out" &&
  grep -q "fast. | 0 | 2 | 1 | 1 | 1 | 1.50 | 1.22474 |" "$out" &&
  grep -q "slow. | 1 | 2 | 1 | 1 | 1 | 1.50 | 1.22474 |" "$out" &&
  grep -q "^| without slow, other |  |  |  | 1 | 1 | 1.50 | 1.22474 |" "$out" ||
  fail "what algorithms are good for"

# Ranks that are threads of one process.
timeout 60 "$bin/plait-bench" --table --devices 3 --peers mpi -C all_reduce,barrier \
  --algorithms default -b 1K -e 64K -f 64 -n 3 -w 0 --json "$files/json" --csv "$files/csv" \
  >"$out" 2>"$said" ||
  fail "three devices of one process"
[ "$(grep -c '^# rank [0-2] of 3: host device [0-2], ' "$out")" = 3 ] &&
  grep -qx "# ranks in 1 process" "$out" || fail "the head of three devices"
[ "$(grep -cE '^(all_reduce|barrier) .* 0$' "$out")" = 3 ] || fail "rows of three devices"
grep -qx "# peer mpi is not measured: its ranks are processes, .*" "$out" ||
  fail "MPI beside threads"
python3 "$here/files_check.py" "$files/json" "$files/csv" 1 ||
  fail "the figures of three devices"
timeout 60 "$bin/plait-bench" --devices 2 --creation 2 >"$out" 2>"$said" &&
  grep -q '"ranks":2,"nodes":1,.*"creation_us":\[[0-9.e]*,[0-9.e]*\]' "$out" ||
  fail "creation was not measured twice"
