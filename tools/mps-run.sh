#!/usr/bin/env bash
# tools/mps-run.sh RANKS COMMAND...: runs COMMAND under mpirun with RANKS ranks that share one
# NVIDIA GPU: see tools/mps.sh.
[[ ${1-} =~ ^[1-9][0-9]*$ && $# -gt 1 ]] ||
  { echo "usage: tools/mps-run.sh RANKS COMMAND..." >&2; exit 2; }
ranks=$1
shift
exec "$(dirname "${BASH_SOURCE[0]}")/mps.sh" "$ranks" \
  mpirun --oversubscribe --bind-to none -n "$ranks" "$@"
