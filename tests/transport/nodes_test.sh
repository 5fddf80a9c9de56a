#!/usr/bin/env bash
# nodes_test.sh NODES_SCRIPT: tools/nodes.sh makes nodes that look like several machines, shapes
# their network as asked, and leaves nothing behind.
set -uo pipefail
skip() { echo "SKIPPED: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
nodes=$(readlink -f "$1")
if [ "${2-}" != inside ]; then
  this=$(readlink -f "$0")
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder" || exit
fi

# Bytes, to the other node and back, as `MEGABITS_PER_SECOND MICROSECONDS`: the rate of a long
# message, and half of the median round trip of short ones.
probe=$(cat <<'EOP'
import socket, statistics, sys, time

def receive(connection, count):
    while count > 0:
        data = connection.recv(min(count, 1 << 20))
        if not data: sys.exit("the connection is closed")
        count -= len(data)

role, count = sys.argv[1], int(sys.argv[2])
if role == "serve":
    server = socket.create_server(("", 5000))
    print("listening", flush=True)
    connection, _ = server.accept()
else:
    connection = socket.create_connection(("n1", 5000), timeout=30)
connection.settimeout(30)
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
trips = []
for _ in range(50):
    if role == "serve": receive(connection, 1), connection.sendall(b"x")
    else:
        start = time.monotonic()
        connection.sendall(b"x"), receive(connection, 1)
        trips.append(time.monotonic() - start)
if role == "serve": receive(connection, count), connection.sendall(b"x")
else:
    start = time.monotonic()
    connection.sendall(bytes(count)), receive(connection, 1)
    print(round(count * 8e-6 / (time.monotonic() - start)), round(statistics.median(trips) * 5e5))
EOP
)
exchange() {  # exchange BYTES: n1 serves, and this node asks
  local server line
  exec {server}< <(exec "$nodes" on n1 python3 -c "$probe" serve "$1" 2>&1)
  read -r -t 30 line <&$server
  [ "${line-}" = listening ] || fail "n1: ${line-}"
  python3 -c "$probe" ask "$1" || fail "n0 can't talk to n1"
  exec {server}<&-
}
# The machine may be busy: no try exceeds what the shape allows, and one of five reaches LOW, which
# the shape before doesn't allow.
expect_rate() {  # expect_rate LOW HIGH BYTES
  local rate
  for ((tries = 1; tries <= 5; tries++)); do
    read -r rate _ <<<"$(exchange "$3")"
    echo "$1 to $2 Mbit/s: $rate"
    [ "$rate" -le "$2" ] || fail "TCP reaches $rate Mbit/s, at most $2 are allowed"
    [ "$rate" -lt "$1" ] || return
  done
  fail "TCP doesn't reach $1 Mbit/s"
}
within() {  # within VALUE WANTED PERCENT
  [ "$1" -ge $(($2 * (100 - $3) / 100)) ] && [ "$1" -le $(($2 * (100 + $3) / 100)) ]
}

# --- on n0 ----------------------------------------------------------------------------------------

if [ "${2-}" = inside ]; then
  [ "$(hostname) $PLAIT_NODE $NODES_NAMES" = "n0 n0 n0 n1" ] || fail "n0 is $(hostname)"
  # shellcheck disable=SC2016
  [ "$("$nodes" on n1 sh -c 'echo $(hostname) $PLAIT_NODE')" = "n1 n1" ] || fail "n1 is not n1"
  # shellcheck disable=SC2016
  [ "$("$nodes" ssh -x -T n1 'echo' a '$PLAIT_NODE')" = "a n1" ] || fail "ssh's stand-in"
  touch /dev/shm/of_n0
  "$nodes" on n1 test ! -e /dev/shm/of_n0 || fail "n1 sees the shared memory of n0"

  read -r before_out _ <<<"$("$nodes" bytes n0)"
  read -r _ before_in <<<"$("$nodes" bytes n1)"
  expect_rate 85 115 20000000
  read -r after_out _ <<<"$("$nodes" bytes n0)"
  read -r _ after_in <<<"$("$nodes" bytes n1)"
  within $((after_out - before_out)) $((tries * 20800000)) 5 ||
    fail "n0 counts $((after_out - before_out)) B after $tries messages"
  within $((after_in - before_in)) $((tries * 20800000)) 5 ||
    fail "n1 counts $((after_in - before_in)) B after $tries messages"

  "$nodes" shape --rate 400mbit || fail "the shape can't be changed"
  expect_rate 130 460 60000000

  "$nodes" link n1 down || fail "the cable can't be pulled"
  timeout 1 python3 -c 'import socket; socket.create_connection(("n1", 5000))' 2>/dev/null
  [ $? = 124 ] || fail "n1 answers without a cable"
  "$nodes" link n1 up || fail "the cable can't be plugged in"
  "$nodes" shape || fail "the shape can't be taken off"
  expect_rate 500 1000000 100000000

  if "$nodes" shape --loss 20% n1; then
    # Datagrams, because TCP sends again.
    "$nodes" on n1 python3 -c 'if 1:
      import socket
      server = socket.create_server(("", 5001))
      packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
      packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
      packets.bind(("", 5001))
      packets.settimeout(1)
      connection, _ = server.accept()
      connection.recv(1)
      count = 0
      try:
          while packets.recv(100): count += 1
      except TimeoutError: pass
      print(count)' >lost &
    server=$!
    python3 -c 'if 1:
      import socket, time
      for attempt in range(100):
          try: connection = socket.create_connection(("n1", 5001), timeout=5)
          except OSError: time.sleep(0.1)
          else: break
      packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
      for packet in range(1000):
          packets.sendto(b"x", ("n1", 5001))
          if packet % 50 == 0: time.sleep(0.001)
      connection.sendall(b"x")' || fail "n0 can't send datagrams"
    wait $server
    echo "20 % loss: $(cat lost) of 1000 packets arrive"
    within "$(cat lost)" 800 10 || fail "20 % should be lost, $(cat lost) of 1000 arrive"
  else
    echo "LEFT OUT: nodes.loss: the kernel has no packet classifier"
  fi
  if "$nodes" shape --delay 5ms; then
    read -r _ trip <<<"$(exchange 1)"
    echo "5 ms delay: $trip us one way"
    [ "$trip" -ge 5000 ] || fail "5 ms were asked, one way takes $trip us"
  else
    echo "LEFT OUT: nodes.delay: the kernel has no netem"
  fi
  exit 0
fi

# --- from outside ---------------------------------------------------------------------------------

lacks=$("$nodes" 2 true 2>&1)
case $? in 0) ;; 77) skip "${lacks#nodes: }" ;; *) fail "two nodes: $lacks" ;; esac
lacks=$("$nodes" --rate 100mbit 2 true 2>&1)
case $? in 0) ;; 77) skip "${lacks#nodes: }" ;; *) fail "two nodes: $lacks" ;; esac
command -v python3 >/dev/null || skip "there is no python3"
host=$(hostname)
namespaces() { ip netns list; readlink /proc/self/ns/*; ls -d /etc/netns /run/netns 2>&1; }
before=$(namespaces)

"$nodes" --rate 100mbit 2 "$this" "$nodes" inside || fail "see above"

"$nodes" 2 sh -c 'exit 5'
[ $? = 5 ] || fail "the status of the command is lost"
# shellcheck disable=SC2016
said=$("$nodes" --ranks 2 2 sh -c 'echo $RANK $LOCAL_RANK $WORLD_SIZE $(hostname)' | sort |
  paste -sd,)
[ "$said" = "0 0 4 n0,1 1 4 n0,2 0 4 n1,3 1 4 n1" ] || fail "ranks: $said"
start=$SECONDS
# shellcheck disable=SC2016
"$nodes" --ranks 2 2 sh -c '[ $RANK = 2 ] && exit 9; exec sleep 60'
[ $? = 9 ] || fail "the status of the first rank that fails is lost"
[ $((SECONDS - start)) -lt 30 ] || fail "the other ranks were not ended"

# A mark that no other process has finds those of a run.
mark=60.$$$RANDOM
marked() { grep -lsza "^$mark\$" /proc/[0-9]*/cmdline; }
for signal in INT TERM KILL; do
  # A shell starts background commands without SIGINT.
  env --default-signal=INT "$nodes" --ranks 1 2 sleep $mark &
  process=$!
  for ((i = 0; i < 100; i++)); do
    [ "$(marked | wc -l)" -ge 5 ] && break  # two ranks; the script, unshare, the script inside
    sleep 0.1
  done
  [ "$(marked | wc -l)" -ge 5 ] || fail "the ranks don't start"
  kill -$signal $process
  wait $process 2>/dev/null
  for ((i = 0; i < 50; i++)); do
    [ -z "$(marked)" ] && break
    sleep 0.1
  done
  [ -z "$(marked)" ] || fail "after SIG$signal there are still $(marked | paste -sd ' ')"
done

[ "$(namespaces)" = "$before" ] || fail "namespaces: $before; now $(namespaces)"
[ "$(hostname)" = "$host" ] || fail "the host is called $(hostname)"
exit 0
