#!/usr/bin/env bash
# short_ranks_test.sh NODES_SCRIPT PROGRAM NODES RANKS STARTS ROUNDS [CASE...]: starts PROGRAM
# (short_ranks) STARTS times for each CASE ("CALL END"; default: all), with RANKS ranks on each of
# NODES nodes, which are namespaces (tools/nodes.sh). With `destroy`, each start makes ROUNDS
# communicators. All ranks of all starts must succeed. By hand: STARTS of some hundreds.
set -uo pipefail
skip() { echo "SKIPPED: $*"; exit 77; }
nodes=$(readlink -f "$1") program=$(readlink -f "$2") count=$3 ranks=$4 starts=$5 rounds=$6

if [ "${NODES_NAMES-}" = '' ]; then
  lacks=$("$nodes" "$count" true 2>&1)
  case $? in 0) ;; 77) skip "${lacks#nodes: }" ;; *) echo "FAILED: nodes: $lacks"; exit 1 ;; esac
  exec "$nodes" "$count" "$0" "$@"
fi

shift 6
[ $# -gt 0 ] || set -- "all_reduce destroy" "split destroy" "all_to_all destroy" \
  "broadcast destroy" "all_reduce return" "barrier return" "all_gather return"
export PLAIT_TIMEOUT=30 PLAIT_SCRATCH_BYTES=16M PLAIT_CALIBRATE=0
export WORLD_SIZE=$((count * ranks)) LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=n0
port=29500 bad=0
start() {  # start CALL END: one start of all ranks
  local node local_rank processes=() process status=0
  export MASTER_PORT=$((port++))
  [ $port -lt 30500 ] || port=29500
  for ((node = 0; node < count; node++)); do
    for ((local_rank = 0; local_rank < ranks; local_rank++)); do
      RANK=${#processes[@]} LOCAL_RANK=$local_rank GROUP_RANK=$node "$nodes" on n$node \
        "$program" "$1" "$2" "$([ "$2" = return ] && echo 1 || echo "$rounds")" </dev/null &
      processes+=($!)
    done
  done
  for process in "${processes[@]}"; do wait "$process" || status=1; done
  return $status
}
for case in "$@"; do
  failed=0
  read -r call end <<<"$case"
  for ((i = 0; i < starts; i++)); do start "$call" "$end" || failed=$((failed + 1)); done
  echo "$case: $failed of $starts starts fail"
  bad=$((bad + failed))
done
[ $bad = 0 ] || exit 1
