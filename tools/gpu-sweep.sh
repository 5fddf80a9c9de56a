#!/usr/bin/env bash
# tools/gpu-sweep.sh RANKS ALGORITHM "BLOCKS..." "THREADS..." [plait-bench flags]: on a GPU machine, an algorithm's time for launch shapes, one line a
# shape: microseconds for each size. For finding an algorithm's default shape.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tools/gpu-env.sh
. tools/gpu-env.sh
ranks=$1 algorithm=$2 blocks=$3 threads=$4
shift 4
csv=$(mktemp)
for t in $threads; do
  for b in $blocks; do
    timeout 60 "${mpi[@]}" -n "$ranks" "$bundle/bin/plait-bench" --backend "$PLAIT_BACKEND" --algorithms "$algorithm" --peers none -c 0 --blocks "$b" --threads "$t" \
      --csv "$csv" "$@" >/dev/null 2>&1 || { echo "$algorithm $b x $t failed"; continue; }
    python3 - "$csv" "$ranks ranks $algorithm $b x $t" <<'PY'
import csv, sys
rows = [r for r in csv.DictReader(open(sys.argv[1])) if r["name"] != "default"]
print(sys.argv[2] + ": " + "  ".join(f"{int(r['bytes'])>>10}K {float(r['time_us']):.1f} ({float(r['busbw']):.0f})" for r in rows), flush=True)
PY
  done
done
