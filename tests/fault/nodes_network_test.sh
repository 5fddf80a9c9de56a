#!/usr/bin/env bash
# nodes_network_test.sh NODES_SCRIPT NODES RANKS PROGRAM FAULT: RANKS ranks of PROGRAM
# (networked_ranks) on each of NODES nodes, which are namespaces (tools/nodes.sh), meet with a
# fault in the middle of collectives. FAULT:
#   down        a node's cable is pulled and stays so
#   allocating  the same, while ranks call `allocate`
#   dark        the same in collectives, and its ranks are killed at that moment, as where a machine
#               loses its power
#   killed      a node's ranks are killed
#   stopped     a rank is stopped for longer than the deadline, and goes on then
#   blocked     nothing that a node sends arrives from before the first call on
#   loopback    ranks are to use the loopback device; no fault if all are on one node
#   passing     while a node has slow ranks, one after the other: a cable that is pulled and a rank
#               that is stopped for less than the deadline, a slow cable, lost packets
# In the last, the job goes on, and results are right. With `loopback` no communicator is made. In
# the others each rank that still runs must report an error in time, with the names of a rank that
# is out of its reach and of its node, and end by itself. Nothing may be left behind.
set -uo pipefail
skip() { echo "SKIPPED: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
nodes=$(readlink -f "$1") count=$2 ranks=$3 program=$(readlink -f "$4") fault=$5
world=$((count * ranks))

# --- on n0 ----------------------------------------------------------------------------------------

# The ranks: their processes, and what they have printed in $folder/RANK.
start_ranks() {  # start_ranks DEADLINE PAUSE_OF_THE_LAST_NODE [allocate]
  local node local_rank pause rank
  processes=()
  touch "$folder/rounds" "$folder/made"
  export PLAIT_TIMEOUT=$1 PLAIT_SCRATCH_BYTES=16M PLAIT_CALIBRATE=0
  export WORLD_SIZE=$world LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=n0 MASTER_PORT=29500
  for ((node = 0; node < count; node++)); do
    pause=0
    [ $((node + 1)) = "$count" ] && pause=$2
    for ((local_rank = 0; local_rank < ranks; local_rank++)); do
      rank=${#processes[@]}
      RANK=$rank LOCAL_RANK=$local_rank GROUP_RANK=$node "$nodes" on "${machine-n$node}" \
        env PLAIT_NODE=n$node "$program" "$folder" "$pause" ${3+"$3"} \
        >"$folder/$rank" 2>&1 </dev/null &
      processes+=($!)
    done
  done
}
rounds() { wc -l <"$folder/rounds"; }
await_lines() {  # await_lines FILE NUMBER SECONDS: that many in all
  local last=$((SECONDS + $3))
  while [ "$(wc -l <"$folder/$1")" -lt "$2" ]; do
    [ "$(running | wc -w)" = "$world" ] || fail "a rank has ended: $(cat "$folder"/[0-9]*)"
    [ $SECONDS -lt $last ] || fail "only $(wc -l <"$folder/$1") of $2 lines in $1 after $3 s"
    sleep 0.05
  done
}
await_rounds() { await_lines rounds $(($(rounds) + $1)) "$2"; }  # await_rounds NUMBER SECONDS: more
begin_rounds() {  # begin_rounds, as start_ranks
  touch "$folder/go"
  start_ranks "$@"
  await_rounds 3 30
}
running() {  # the ranks that have not ended
  local rank
  for rank in "${!processes[@]}"; do
    if kill -0 "${processes[rank]}" 2>/dev/null; then echo "$rank"; fi
  done
}
await_end() {  # await_end SECONDS: of all ranks
  local last=$((SECONDS + $1))
  while [ -n "$(running)" ]; do
    [ $SECONDS -lt $last ] || fail "after $1 s there are still ranks $(running | paste -sd ' ')"
    sleep 0.05
  done
}
on_node() { echo $(($1 / ranks)); }  # on_node RANK
signal_node() {  # signal_node SIGNAL NODE: all its ranks at once
  kill -"$1" "${processes[@]:$2 * ranks:ranks}"
}

# expect_error RANK SINCE DEADLINE WHAT: the rank has reported an error that matches WHAT, at most
# DEADLINE and four seconds after SINCE: one for the reports of other ranks, and three because the
# ranks may be short of processors.
expect_error() {
  local said at status
  said=$(head -1 "$folder/$1")
  wait "${processes[$1]}"
  status=$?
  [ $status = 3 ] || fail "rank $1 ends with status $status"
  grep -Eq "^rank $1 at [0-9.]+: $4" <<<"$said" || fail "rank $1 should say '$4'"
  at=${said#rank * at } at=${at%%:*}
  echo "rank $1 knows after $(awk "BEGIN { print $at - $2 }") s"
  awk "BEGIN { exit !($at - $2 < $3 + 4) }" || fail "rank $1 has noticed too late"
}
name() { echo "rank $1 on node n$(on_node "$1")"; }
any_name() {  # any_name here: of a rank of n1; any_name elsewhere: of a rank of another node
  local rank place names=''
  for ((rank = 0; rank < world; rank++)); do
    [ "$(on_node $rank)" = 1 ] && place=here || place=elsewhere
    [ $place != "$1" ] || names+="${names:+|}$(name $rank)"
  done
  echo "($names)"
}

break_down() {
  local deadline=3 since rank victim=1 names late what
  if [ "$fault" = allocating ]; then
    begin_rounds $deadline 0 allocate
  else
    begin_rounds $deadline 0
  fi
  since=$EPOCHREALTIME
  case $fault in
    down | allocating) "$nodes" link n1 down || fail "the cable can't be pulled" ;;
    dark)
      "$nodes" link n1 down || fail "the cable can't be pulled"
      signal_node KILL 1
      ;;
    killed) signal_node KILL 1 ;;
    stopped)
      kill -STOP "${processes[victim]}"
      (sleep $((deadline + 2)); kill -CONT "${processes[victim]}") &
      ;;
  esac
  # After the error the communicator's end waits for no rank that is out of reach.
  case $fault in down | dark) late=5 ;; *) late=12 ;; esac
  await_end $((deadline + late))
  tail -n +1 "$folder"/[0-9]*
  for ((rank = 0; rank < world; rank++)); do
    names=$(any_name here)
    case $fault in
      down | allocating) [ "$(on_node $rank)" != 1 ] || names=$(any_name elsewhere) ;;
      dark | killed) [ "$(on_node $rank)" != 1 ] || continue ;;
      stopped) names=$(name $victim) ;;
    esac
    # The stopped rank hears of it when it goes on.
    [ "$fault $rank" = "stopped $victim" ] && late=2 || late=0
    what="(rank_lost|timeout): $names "
    if [ "$fault" = allocating ]; then
      # It names several ranks of a node together: "ranks 2, 3 on node n1".
      names=$([ "$(on_node $rank)" = 1 ] && echo 'n[^1]' || echo n1)
      what="bootstrap: allocate: .*: ranks? [0-9, ]+ on node $names.* did not arrive"
    fi
    expect_error $rank "$since" $((deadline + late)) "$what"
  done
}

block() {
  local since rank other where
  start_ranks 3 0
  await_lines made "$world" 30
  for ((other = 1; other < count; other++)); do
    ip route add 10.77.0.$((other + 1)) dev lo || fail "n0 still sends to n$other"
  done
  since=$EPOCHREALTIME
  touch "$folder/go"
  await_end 12
  tail -n +1 "$folder"/[0-9]*
  for rank in "${!processes[@]}"; do
    other=$(((rank + ranks) % world))
    expect_error "$rank" "$since" 3 "timeout: $(name $other) is missing"
    where="connecting to 10\.77\.0\.$(($(on_node $other) + 1)):[0-9]+: no answer"
    grep -Eq "$(name $other) is not reached: $where: .*PLAIT_SOCKET_IFNAME" "$folder/$rank" ||
      fail "rank $rank should say '$where'"
  done
}

use_loopback() {
  local rank said what="invalid_argument: connecting the nodes: rank 0 on node n0 would listen at "
  what+="127.0.0.1, an address of the loopback device, which rank $ranks on node n1 can't reach: "
  what+="name another interface in PLAIT_SOCKET_IFNAME"
  touch "$folder/go"
  export PLAIT_SOCKET_IFNAME=lo
  start_ranks 20 0
  await_end 30
  for rank in "${!processes[@]}"; do
    wait "${processes[rank]}"
    said=$(cat "$folder/$rank")
    [ "${said#* at *: }" = "$what" ] || fail "rank $rank should say '$what', and says '$said'"
  done
  machine=n0 begin_rounds 20 0
  touch "$folder/stop"
  await_end 30
  for rank in "${!processes[@]}"; do
    wait "${processes[rank]}" || fail "rank $rank on one machine: $(cat "$folder/$rank")"
  done
}

pass() {
  local rank
  begin_rounds 10 20
  say() { echo "$*: $(rounds) rounds after $SECONDS s"; }
  say "began"
  "$nodes" link n1 down || fail "the cable can't be pulled"
  sleep 0.7
  "$nodes" link n1 up || fail "the cable can't be plugged in"
  await_rounds 3 20
  say "a cable was pulled for 0.7 s"
  kill -STOP "${processes[1]}"
  sleep 1
  kill -CONT "${processes[1]}"
  await_rounds 3 20
  say "rank 1 was stopped for 1 s"
  "$nodes" shape --rate 20mbit n1 || fail "n1 can't be slow"
  await_rounds 1 20
  say "n1 has 20 Mbit/s"
  if "$nodes" shape --loss 1%; then
    await_rounds 5 30
    say "1 % of the packets are lost"
  else
    echo "LEFT OUT: nodes.loss: the kernel has no packet classifier"
  fi
  "$nodes" shape
  touch "$folder/stop"
  await_end 20
  tail -n +1 "$folder"/[0-9]*
  for rank in "${!processes[@]}"; do
    wait "${processes[rank]}" || fail "rank $rank ends with status $?"
    grep -Eq "^rank $rank at [0-9.]+: right after $(rounds) rounds" "$folder/$rank" ||
      fail "rank $rank has not made $(rounds) rounds"
  done
}

if [ "${6-}" = inside ]; then
  folder=$7
  case $fault in
    passing) pass ;;
    blocked) block ;;
    loopback) use_loopback ;;
    *) break_down ;;
  esac
  left=$(readlink /proc/[0-9]*/exe | grep -cFx "$program")
  [ "$left" = 0 ] || fail "$left ranks are still there"
  for node in $NODES_NAMES; do
    left=$("$nodes" on "$node" ls /dev/shm)
    [ -z "$left" ] || fail "left behind in /dev/shm of $node: $left"
  done
  exit 0
fi

# --- from outside ---------------------------------------------------------------------------------

lacks=$("$nodes" --rate 100mbit "$count" true 2>&1)
case $? in 0) ;; 77) skip "${lacks#nodes: }" ;; *) fail "$count nodes: $lacks" ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
timeout 100 "$nodes" "$count" "$(readlink -f "$0")" "$@" inside "$folder"
status=$?
# No other process has this folder among its arguments.
left=$(grep -lsza "^$folder\$" /proc/[0-9]*/cmdline)
[ -z "$left" ] || fail "there are still the processes $left"
exit $status
