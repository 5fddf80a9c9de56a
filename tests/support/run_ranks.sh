# run_ranks SECONDS MPIRUN ARGUMENTS...: runs mpirun for at most SECONDS. Returns its status, or
#   124  the ranks did not end in time; they were killed
#   125  the ranks ended, but mpirun did not; it was killed
# mpirun may hang or crash (139) after its ranks were aborted or killed: Open MPI 4.1.4 waits for a
# lock of its own in PMIx_server_finalize, in 1 to 2 % of the runs. To be sourced.
run_ranks() {
  local last=$((SECONDS + $1)) idle=0 mpirun
  shift
  "$@" </dev/null &
  mpirun=$!
  while running "/proc/$mpirun"; do
    sleep 0.1
    if ranks_run $mpirun; then idle=0; else idle=$((idle + 1)); fi
    if [ $idle = 100 ]; then  # ten seconds
      kill -KILL $mpirun
      wait $mpirun
      return 125
    fi
    if [ $SECONDS -ge $last ]; then
      kill -TERM $mpirun  # it kills the ranks
      for ((idle = 0; idle < 50; idle++)); do
        running "/proc/$mpirun" || break
        sleep 0.1
      done
      kill -KILL $mpirun 2>/dev/null
      wait $mpirun
      return 124
    fi
  done
  wait $mpirun
}
ranks_run() {  # ranks_run MPIRUN: has it a child that has not ended?
  local status
  for status in $(grep -lsE "^PPid:[[:space:]]$1\$" /proc/[0-9]*/status); do
    ! running "${status%/status}" || return 0
  done
  return 1
}
running() {  # running /proc/PROCESS: it is there, and no zombie
  local state
  state=$(sed -nE 's/^State:[[:space:]]*(.).*/\1/p' "$1/status" 2>/dev/null)
  [ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ]
}
