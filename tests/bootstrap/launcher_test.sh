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
pair() {  # pair ADDRESS: two ranks
  local rank processes=()
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=$1 MASTER_PORT=29577 "$program" &
    processes+=($!)
  done
  wait "${processes[@]}"
}
own_network() { unshare --user --map-root-user --net "$@"; }

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

export -f pair
export program
own_network bash -c 'pair localhost' >"$folder/said" 2>&1
expect_world 1 "the loopback device is down"
own_network bash -c 'ip link set lo up; ip address delete 127.0.0.1/8 dev lo; pair ::1' \
  >"$folder/said" 2>&1
expect_world 1 "IPv6 alone"
printf '127.0.0.1 both\n::1 both\n' >"$folder/hosts"
LOCAL_WORLD_SIZE=1 own_network --mount bash -c \
  "ip link set lo up; ip address delete 127.0.0.1/8 dev lo
   mount --bind '$folder/hosts' /etc/hosts; pair both" >"$folder/said" 2>&1
expect_world 1 "IPv6 alone, as if on several nodes"
exit 0
