# shellcheck shell=bash
# `run` and `.ci/run` source this file. It lets Open MPI's mpirun work where its defaults fail, and
# changes nothing that the caller has set.

# mpirun refuses to run as root without both.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# It also refuses to start without ssh, even if all ranks run on this machine.
if [ -z "${OMPI_MCA_plm_rsh_agent+set}" ] && ! command -v ssh >/dev/null &&
  ! command -v rsh >/dev/null; then
  export OMPI_MCA_plm_rsh_agent=false
fi

# Between ranks of one machine, Open MPI 4 copies with process_vm_readv, and crashes in containers
# that refuse this call. Without the call, MPI would be slower as a peer in measurements, so this
# asks the kernel first.
plait_process_vm_readv_works() {
  local folder result=0
  folder=$(mktemp -d) || return 0
  cat >"$folder/probe.cpp" <<'EOF'
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
// The processes are siblings, as ranks are: one reads a word of the other. The exit code is 1 only
// if the kernel refuses.
int main() {
  int word = 1;
  int ready[2];
  if (pipe(ready) != 0) return 0;
  const pid_t owner = fork();
  if (owner < 0) return 0;
  if (owner == 0) {
    word = 42;
#ifdef PR_SET_PTRACER
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  const pid_t reader = fork();
  if (reader == 0) {
    char byte;
    if (read(ready[0], &byte, 1) != 1) _exit(0);
    int seen = 0;
    iovec local{&seen, sizeof seen}, remote{&word, sizeof word};
    _exit(process_vm_readv(owner, &local, 1, &remote, 1, 0) == sizeof seen && seen == 42 ? 0 : 1);
  }
  int status = 0;
  if (reader > 0) waitpid(reader, &status, 0);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
EOF
  if "${CXX:-c++}" -o "$folder/probe" "$folder/probe.cpp" 2>/dev/null; then
    "$folder/probe" || result=1
  fi
  rm -rf "$folder"
  return $result
}
if [ -z "${OMPI_MCA_btl_vader_single_copy_mechanism+set}" ] &&
  ! plait_process_vm_readv_works; then
  echo "mpi: process_vm_readv is refused here; Open MPI copies through shared memory instead" >&2
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
fi
