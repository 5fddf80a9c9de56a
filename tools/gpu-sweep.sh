#!/usr/bin/env bash
# tools/gpu-sweep.sh RANKS ALGORITHM "BLOCKS..." "THREADS..." [plait-bench flags]: measures an
# algorithm with several launch shapes on a GPU machine, to find its default shape. Prints one line
# per shape, with the microseconds (and busbw in GB/s) of each size.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tools/gpu-env.sh
. tools/gpu-env.sh
ranks=$1 algorithm=$2 blocks=$3 threads=$4
shift 4
csv=$(mktemp)
for t in $threads; do
  for b in $blocks; do
    timeout 60 "${mpi[@]}" -n "$ranks" "$bundle/bin/plait-bench" --backend "$PLAIT_BACKEND" \
      --algorithms "$algorithm" --peers none -c 0 --blocks "$b" --threads "$t" --csv "$csv" "$@" \
      >/dev/null 2>&1 || {
      echo "$algorithm $b x $t failed"
      continue
    }
    python3 - "$csv" "$ranks ranks $algorithm $b x $t" <<'PY'
import csv, sys
cells = [f"{int(row['bytes']) >> 10}K {float(row['time_us']):.1f} ({float(row['busbw']):.0f})"
         for row in csv.DictReader(open(sys.argv[1])) if row["name"] != "default"]
print(sys.argv[2] + ": " + "  ".join(cells), flush=True)
PY
  done
done
