#!/usr/bin/env bash
# nodes_zoo_test.sh NODES_SCRIPT NODES RANKS wire PROGRAM {ALGORITHM THOUSANDTHS}...    RANKS ranks
#   of PROGRAM (wire_ranks) on each of NODES nodes: what ALGORITHM sends for an all_reduce, by the
#   counters of the interfaces, as a part of what `rails` has to send; with commas, for each node
# nodes_zoo_test.sh NODES_SCRIPT NODES RANKS zoo MPIRUN PROGRAM    all tests of PROGRAM
#   (mpi_zoo_test) there
# The nodes are namespaces (tools/nodes.sh). Where there are none, the test is skipped.
set -uo pipefail
skip() { echo "SKIPPED: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
nodes=$(readlink -f "$1") count=$2 ranks=$3 what=$4

# --- the bytes on the wire, on n0 -----------------------------------------------------------------

if [ "$what" = inside ]; then
  program=$5
  bytes=$((8 << 20))
  counters() {  # of all nodes: "sent received sent received ..."
    local node
    for node in $NODES_NAMES; do "$nodes" bytes "$node"; done | paste -sd ' '
  }
  # The calls of all ranks; prints what each node has sent and received meanwhile.
  sent_by() {  # sent_by ALGORITHM CALLS PORT
    local before after node=0 rank local_rank i processes=() name
    read -ra before <<<"$(counters)"
    export WORLD_SIZE=$((count * ranks)) LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=n0
    export MASTER_PORT=$3  # another one for each group
    for name in $NODES_NAMES; do
      for ((local_rank = 0; local_rank < ranks; local_rank++)); do
        rank=$((node * ranks + local_rank))
        RANK=$rank LOCAL_RANK=$local_rank GROUP_RANK=$node \
          "$nodes" on "$name" "$program" "$1" $bytes "$2" >&2 &
        processes+=($!)
      done
      node=$((node + 1))
    done
    for i in "${processes[@]}"; do wait "$i" || return 1; done
    read -ra after <<<"$(counters)"
    for i in "${!after[@]}"; do echo $((after[i] - before[i])); done | paste -sd ' '
  }
  # `rails`: each byte of the result crosses each node's cable as seldom as an all-reduce can do. It
  # is less if it is quantized. In rank order each rank's terms cross it, not the node's sums.
  # An inner node of a tree sends more than a root.
  # Entries and credits of the proxies come on top, acknowledgements, and headers. These interfaces
  # take up to 64 KB from TCP under one header, so the counters hold few of them. A network of
  # 1500-byte frames has 66 bytes of headers for 1448 of data, which this adds.
  check() {  # check ALGORITHM THOUSANDTHS
    local parts payload per_call i which framed
    IFS=, read -ra parts <<<"$2"
    # The difference between many calls and few, so that what ranks say to meet does not count.
    local few=4 many=24 less more
    read -ra less <<<"$(sent_by "$1" $few $port)"
    read -ra more <<<"$(sent_by "$1" $many $((port + 1)))"
    port=$((port + 2))
    if [ ${#less[@]} != $((2 * count)) ] || [ ${#more[@]} != $((2 * count)) ]; then
      fail "see above"
    fi
    for i in "${!more[@]}"; do
      payload=$((2 * (count - 1) * bytes / count * ${parts[i / 2 % ${#parts[@]}]} / 1000))
      per_call=$(((more[i] - less[i]) / (many - few)))
      which="$1: n$((i / 2)) $([ $((i % 2)) = 0 ] && echo sends || echo receives)"
      framed=$((per_call * 1514 / 1448))
      echo "$which $per_call B per call, $((per_call * 1000 / payload)) thousandths of" \
        "$payload B, $((framed * 1000 / payload)) in frames of 1500 B"
      [ $((framed * 10)) -le $((payload * 11)) ] || fail "$which more than 1.1 times the least"
      [ $per_call -ge $payload ] || fail "$which less than the least: the counters are wrong"
    done
  }
  shift 5
  port=29500
  while [ $# -gt 1 ]; do check "$1" "$2"; shift 2; done
  exit 0
fi

# --- from outside ---------------------------------------------------------------------------------

lacks=$("$nodes" "$count" true 2>&1)
case $? in 0) ;; 77) skip "${lacks#nodes: }" ;; *) fail "$count nodes: $lacks" ;; esac
case $what in
  wire)
    "$nodes" "$count" "$(readlink -f "$0")" "$nodes" "$count" "$ranks" inside \
      "$(readlink -f "$5")" "${@:6}"
    ;;
  zoo)
    hosts=''
    for ((i = 0; i < count; i++)); do hosts+=${hosts:+,}n$i:$ranks; done
    "$nodes" "$count" "$5" --host "$hosts" "$(readlink -f "$6")"
    ;;
  *) fail "there is no test $what" ;;
esac
