# shellcheck shell=bash disable=SC2034
# What tests of plait-bench share, to be sourced: BIN and MPIRUN are their arguments.
bin=$1 mpirun=$2
# shellcheck source=tests/support/run_ranks.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/run_ranks.sh"
here=$(dirname "${BASH_SOURCE[0]}")
out=$(mktemp) said=$(mktemp)
files=$(mktemp -d)
trap 'rm -rf "$out" "$said" "$files"' EXIT
fail() { echo "FAILED: $*"; cat "$out" "$said"; exit 1; }
export PLAIT_BACKEND=host
bench() {  # bench FLAGS...: two ranks of plait-bench, beside $peers, with all rows
  local status=0 trial
  for trial in 1 2 3; do
    status=0
    run_ranks 60 "$mpirun" --allow-run-as-root --oversubscribe -n 2 "$bin/plait-bench" \
      --table --peers "${peers:-none}" "$@" >"$out" 2>"$said" || status=$?
    [ $status = 139 ] || [ $status = 125 ] || break
    echo "mpirun crashed or hung (status $status), trial $trial"
  done
  return $status
}
