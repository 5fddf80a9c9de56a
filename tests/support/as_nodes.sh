#!/usr/bin/env bash
# mpirun ... as_nodes.sh RANKS[,RANKS]... COMMAND...: runs COMMAND as if that many of mpirun's ranks
# were on each node, in their order: "2,1" for ranks 0 and 1 on node n0, and rank 2 on n1. Ranks
# beyond the list go on with its last number. NODE_GPUS=1 gives each node GPUs of its own, one for
# each of its ranks.
set -uo pipefail
rank=${OMPI_COMM_WORLD_RANK:?is not started by mpirun}
IFS=, read -ra per_node <<<"$1"
shift
node=0 first=0
while count=${per_node[node]-${per_node[-1]}} && [ "$rank" -ge $((first + count)) ]; do
  first=$((first + count)) node=$((node + 1))
done
if [ -n "${NODE_GPUS-}" ]; then
  CUDA_VISIBLE_DEVICES=$(seq -s, $first $((first + count - 1)))
  export CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES
fi
PLAIT_NODE=n$node exec "$@"
