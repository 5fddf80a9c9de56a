#!/usr/bin/env bash
# launcher_test.sh NODES_SCRIPT PROGRAM: ranks of PROGRAM (world_rank) that a launcher's variables
# describe, where the system is unlike that of most machines.
set -uo pipefail
skip() { echo "SKIPPED: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
nodes=$(readlink -f "$1") program=$(readlink -f "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PLAIT_TIMEOUT=30 PLAIT_CALIBRATE=0

expect_world() {  # expect_world NODES WHAT: both ranks have said what they should
  local said rank
  said=$(cat "$folder"/said)
  for rank in 0 1; do
    grep -qx "rank $rank of 2 on node $((rank * ($1 - 1))) of $1: right" <<<"$said" ||
      fail "$2: $said"
  done
}
# Containers of one machine often have one host name, and differ in their networks.
# shellcheck disable=SC2016
"$nodes" --ranks 1 2 sh -c 'hostname box && unset PLAIT_NODE && exec "$1"' sh "$program" \
  >"$folder/said" 2>&1
[ $? != 77 ] || skip "$(cat "$folder/said")"
expect_world 2 "two networks under one host name"
# A launcher may start each rank in its own user, mount, PID and IPC namespaces.
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29578 \
    unshare --user --map-root-user --mount --pid --fork --ipc "$program" &
done >"$folder/said" 2>&1
wait
expect_world 1 "a container per rank in one network"
exit 0
