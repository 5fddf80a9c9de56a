#!/usr/bin/env bash
# tools/nodes.sh [OPTIONS] NODES COMMAND...: runs COMMAND where NODES machines seem to be, on one
# machine and without root. Each node has its own network, host name (n0, n1, ...), address
# (10.77.0.1, 10.77.0.2, ...), /dev/shm and System V IPC, and a cable to one switch. The nodes share
# all files but those in /dev/shm. COMMAND runs on n0, and it can use
#   tools/nodes.sh on NODE COMMAND...       runs COMMAND on NODE
#   tools/nodes.sh ssh [-X...] NODE WORDS   the same with ssh's arguments, for the same environment
#   tools/nodes.sh link NODE up|down        plugs in the node's cable, or pulls it
#   tools/nodes.sh bytes NODE               prints the bytes that the node has sent and received
#   tools/nodes.sh shape OPTIONS [NODE...]  shapes the cables (default: of all nodes) anew
# OPTIONS:
#   --rate 400mbit  bandwidth of each cable, in each direction
#   --delay 1ms     added to each packet that a node sends, so a round trip takes twice as long
#   --loss 1%       of the packets are lost, in each direction of each cable
#   --ranks R       starts COMMAND R times on each node, with the variables of torchrun (RANK,
#                   WORLD_SIZE, MASTER_ADDR, ...). If one fails, the others are ended.
# Environment of COMMAND: NODES_NAMES ("n0 n1"), PLAIT_NODE (this node), NODES_HOLDERS (a process of
# each node), and Open MPI's agent, so mpirun --host n0:2,n1:2 works.
#
# Exits with COMMAND's status (with --ranks: the first failure's), or with 77 after a sentence that
# says what this machine lacks. All processes end with this one, also if it is killed, and the
# namespaces end with their processes.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
self=$(readlink -f "${BASH_SOURCE[0]}")
fail() { printf 'nodes: %s\n' "$*" >&2; exit 2; }
lack() { printf 'nodes: %s\n' "$*" >&2; exit 77; }
usage() {
  sed -n '2,/^set /{s/^# \{0,1\}//p}' "$self" >&2
  exit 2
}

# --- inside the namespaces ------------------------------------------------------------------------

holder_of() {  # holder_of NODE: the process that keeps the node's namespaces
  local pair
  for pair in ${NODES_HOLDERS-}; do
    if [ "${pair%%=*}" = "$1" ]; then echo "${pair#*=}"; return; fi
  done
  fail "there is no node '$1'${NODES_NAMES+ among $NODES_NAMES}"
}
in_node() {  # in_node NODE COMMAND...: in the node's network
  local holder
  holder=$(holder_of "$1") || exit
  nsenter -t "$holder" --net "${@:2}"
}
in_switch() { nsenter -t 1 --net "$@"; }

on() {  # on NODE COMMAND...: the shell becomes COMMAND, so its PID is that of COMMAND
  local holder
  holder=$(holder_of "$1") || exit
  export PLAIT_NODE=$1
  shift
  exec nsenter -t "$holder" --net --uts --ipc --mount --wd="$PWD" -- "$@"
}

bytes() {  # bytes NODE: bytes sent and received. Asks the node's network for its own interface.
  in_node "$1" ip -s link show dev e0 |
    awk '/RX:/ { getline; received = $1 } /TX:/ { getline; sent = $1 } END { print sent, received }'
}

# Options of a shape, or nothing. Without a burst that covers the timer's delay, tbf falls short of
# its rate; with a large one, small messages would not be shaped at all.
rate='' delay='' loss=''
shape_option() {  # shape_option NAME VALUE
  case $1 in
    --rate) [[ $2 =~ ^[0-9]+(k|m|g)bit$ ]] || fail "--rate $2 is none like 400mbit"; rate=$2 ;;
    --delay) [[ $2 =~ ^[0-9.]+(us|ms|s)$ ]] || fail "--delay $2 is none like 1ms"; delay=$2 ;;
    --loss) [[ $2 =~ ^[0-9]+(\.[0-9]+)?%$ ]] || fail "--loss $2 is none like 1%"; loss=$2 ;;
    *) return 1 ;;
  esac
}
burst() {  # in bytes: 200 us of the rate, and at least four packets
  local kbit=${rate%?bit}
  case $rate in *mbit) kbit=$((kbit * 1000)) ;; *gbit) kbit=$((kbit * 1000000)) ;; esac
  local bytes=$((kbit / 40))
  echo $((bytes > 6400 ? bytes : 6400))
}
shape_end() {  # shape_end DEVICE DELAY: one end of a cable, in the present network
  local place=(root handle '1:')
  tc qdisc del dev "$1" root 2>/dev/null
  tc qdisc del dev "$1" clsact 2>/dev/null
  if [ -n "$2" ]; then
    tc qdisc add dev "$1" "${place[@]}" netem limit 20000 delay "$2" 2>/dev/null ||
      lack "the kernel has no netem (sch_netem), so it can't delay packets"
    place=(parent 1:1 handle '2:')
  fi
  if [ -n "$rate" ]; then
    tc qdisc add dev "$1" "${place[@]}" tbf rate "$rate" burst "$(burst)" latency 50ms \
      2>/dev/null || lack "the kernel has no tbf (sch_tbf), so it can't limit a rate"
  fi
  ip link set "$1" gso_max_segs 65535
  [ -z "$loss" ] || lose "$1"
}
# Drops packets that arrive, by a classic BPF program: load a random number, compare it, return -1
# (go on) or 2 (drop). netem drops on the sender's side, where TCP would see it at once.
lose() {  # lose DEVICE
  local below
  below=$(awk -v part="${loss%\%}" 'BEGIN { printf "%.0f", part / 100 * 4294967295 }')
  { tc qdisc add dev "$1" clsact &&
    tc filter add dev "$1" ingress bpf da bytecode \
      "4,32 0 0 4294963256,53 0 1 $below,6 0 0 4294967295,6 0 0 2,"; } 2>/dev/null ||
    lack "the kernel has no packet classifier (sch_ingress, cls_bpf), so it can't lose packets"
  # One frame per packet, because TCP otherwise hands 64 KB on at once, and all of it would be lost.
  ip link set "$1" gso_max_segs 1
}
shape() {  # shape OPTIONS [NODE...]
  while [[ ${1-} = --* ]]; do
    shape_option "$1" "${2-}" || fail "shape: there is no option $1"
    shift 2
  done
  local node nodes=("$@")
  [ $# -gt 0 ] || read -ra nodes <<<"$NODES_NAMES"
  [ -z "$rate$delay$loss" ] || command -v tc >/dev/null ||
    lack "there is no tc (package iproute2), so it can't shape the network"
  for node in "${nodes[@]}"; do
    # tc knows only the network that it runs in.
    in_node "$node" "$self" shape-end "e0,$rate,$delay,$loss" || exit
    in_switch "$self" shape-end "$node,$rate,,$loss" || exit
  done
}

# --- the first process in the namespaces ----------------------------------------------------------

hold() {  # hold NODE: becomes the process that keeps the node's namespaces
  hostname "$1" && mount -t tmpfs tmpfs /dev/shm && chmod 1777 /dev/shm && echo ready &&
    exec sleep infinity
}

make_nodes() {  # make_nodes COUNT
  local i node ready
  export NODES_NAMES='' NODES_HOLDERS=''
  export OMPI_MCA_plm_rsh_agent="$self ssh" PRTE_MCA_plm_ssh_agent="$self ssh"  # Open MPI 4, 5
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # each user is root in here
  ip link set lo up
  ip link add switch type bridge 2>/dev/null || lack "the kernel has no network bridge"
  ip link set switch up
  mount -t tmpfs tmpfs /dev/shm || lack "mounting is forbidden here"
  echo 127.0.0.1 localhost >/dev/shm/hosts
  for ((i = 0; i < $1; i++)); do echo "10.77.0.$((i + 1)) n$i" >>/dev/shm/hosts; done
  mount --bind /dev/shm/hosts /etc/hosts || lack "mounting over /etc/hosts is forbidden here"
  for ((i = 0; i < $1; i++)); do
    node=n$i
    exec {ready}< <(exec unshare --net --uts --ipc --mount "$self" hold $node)
    NODES_HOLDERS+="${NODES_HOLDERS:+ }$node=$!" NODES_NAMES+="${NODES_NAMES:+ }$node"
    read -r <&$ready || lack "a node can't have its own host name and /dev/shm here"
    ip link add $node type veth peer name e0 netns "$(holder_of $node)" 2>/dev/null ||
      lack "the kernel has no veth network devices"
    ip link set $node master switch up
    in_node $node sh -ec "ip link set lo up; ip address add 10.77.0.$((i + 1))/24 dev e0
                          ip link set e0 up" || lack "the nodes' network can't be set up"
  done
}

run_ranks() {  # run_ranks PER_NODE COMMAND...
  local per_node=$1 node local_rank i status=0 processes=() nodes
  shift
  read -ra nodes <<<"$NODES_NAMES"
  export WORLD_SIZE=$((per_node * ${#nodes[@]})) LOCAL_WORLD_SIZE=$per_node
  export MASTER_ADDR=${MASTER_ADDR:-n0} MASTER_PORT=${MASTER_PORT:-29500}
  for node in "${!nodes[@]}"; do
    for ((local_rank = 0; local_rank < per_node; local_rank++)); do
      export RANK=$((node * per_node + local_rank)) LOCAL_RANK=$local_rank GROUP_RANK=$node
      on "n$node" env --default-signal=INT,QUIT "$@" </dev/null &
      processes+=($!)
    done
  done
  # Asks for each, because `wait -n` of bash 5.2 can miss one that has already ended.
  while [ ${#processes[@]} -gt 0 ] && [ $status = 0 ]; do
    sleep 0.05
    for i in "${!processes[@]}"; do
      if kill -0 "${processes[i]}" 2>/dev/null; then continue; fi
      wait "${processes[i]}" || { status=$?; break; }
      unset "processes[i]"
    done
  done
  if [ $status != 0 ]; then
    kill -TERM "${processes[@]}" 2>/dev/null
    for ((i = 0; i < 40; i++)); do
      kill -0 "${processes[@]}" 2>/dev/null || break
      sleep 0.05
    done  # the end of this process kills the rest
  fi
  return $status
}

# --- subcommands, and the start -------------------------------------------------------------------

case ${1-} in
  on) [ $# -gt 2 ] || usage; on "${@:2}" ;;
  ssh)
    shift
    while [[ ${1-} = -* ]]; do shift; done
    [ $# -gt 1 ] || usage
    on "$1" sh -c "${*:2}"
    ;;
  link)
    [[ $# = 3 && $3 =~ ^(up|down)$ ]] || usage
    holder_of "$2" >/dev/null || exit
    in_switch ip link set "$2" "$3"
    exit
    ;;
  bytes) [ $# = 2 ] || usage; bytes "$2"; exit ;;
  shape) shape "${@:2}"; exit ;;
  shape-end)
    IFS=, read -r device rate delay loss <<<"$2"
    shape_end "$device" "$delay"
    exit
    ;;
  hold) hold "$2"; exit ;;
esac

ranks=0 given=("$@") shape_options=()
while [[ ${1-} = --* ]]; do
  if [ "$1" = --ranks ]; then
    [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "--ranks '${2-}' is no number of ranks"
    ranks=$2
  else
    shape_option "$1" "${2-}" || usage
    shape_options+=("$1" "$2")
  fi
  shift 2
done
[[ ${1-} =~ ^[1-9][0-9]{0,2}$ && $1 -le 250 && $# -gt 1 ]] || usage
count=$1
shift

if [ "$$" = 1 ] && [ "${NODES_INSIDE-}" = yes ]; then
  unset NODES_INSIDE
  make_nodes "$count"
  [ ${#shape_options[@]} = 0 ] || (shape "${shape_options[@]}") || exit
  if [ "$ranks" -gt 0 ]; then run_ranks "$ranks" "$@"; else (on n0 "$@"); fi
  exit
fi

for program in ip:iproute2 unshare:util-linux nsenter:util-linux setpriv:util-linux; do
  command -v "${program%:*}" >/dev/null ||
    lack "there is no ${program%:*} (package ${program#*:})"
done
namespaces=(--net --mount --uts --ipc --pid --fork --kill-child --mount-proc)
if [ "$(id -u)" != 0 ] || ! unshare "${namespaces[@]}" true 2>/dev/null; then
  namespaces=(--user --map-root-user "${namespaces[@]}")
  unshare "${namespaces[@]}" true 2>/dev/null ||
    lack "this user may not make namespaces (user namespaces are off, or this is a container)"
fi
# In the background, because a shell that waits for a command in the foreground handles no signals.
# unshare itself would ignore those that can be ignored. It is killed if this shell is, and then the
# kernel kills all processes of its namespace.
end() { kill -KILL "$inside" 2>/dev/null; wait "$inside" 2>/dev/null; }
trap 'end; exit 130' INT
trap 'end; exit 143' TERM HUP PIPE
NODES_INSIDE=yes setpriv --pdeathsig KILL env --default-signal=INT,QUIT \
  unshare "${namespaces[@]}" "$self" "${given[@]}" <&0 &
inside=$!
wait "$inside"
