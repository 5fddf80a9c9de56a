#!/usr/bin/env bash
# tools/gpu-run.sh [RANKS...]: runs the tests and then the benchmark on a GPU machine, with the
# folder that tools/gpu-bundle.sh made beside tools/ and tests/. RANKS are the numbers of GPUs to
# measure with, one run per number; the default is all GPUs. Every step has a time limit. A failing
# step does not end the run; the exit code says whether any failed. Installs nothing and changes no
# setting of the GPUs.
#
#   OUT=out                    folder for the results, at most eight files: machine.txt, tests.log,
#                              bench.log, summary.txt and the benchmark's JSON (and CSV, for one
#                              number of ranks)
#   TIME_LIMIT=570             seconds for everything
#   TEST_LIMIT=240             seconds for all tests, but for those of tests/nccl
#   TESTS                      names of test programs, and zoo_host_memory (all)
#   GTEST_FILTER               for every test program
#   TYPES="f32 bf16"           element types for plait-bench
#   SIZES="-b 1K -e 1G -f 4"   sizes for plait-bench
#   BENCH_FLAGS                further flags for plait-bench
#   DEPS                       folder that Open MPI is unpacked to
#   BUNDLE=gpu-bundle-hip PLAIT_BACKEND=hip
#                              another bundle beside gpu-bundle, and its target
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
out=${OUT:-out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
: >"$out/summary.txt"
failed=0

fail() { printf 'gpu-run: %s\n' "$*" | tee -a "$out/summary.txt" >&2; exit 1; }

left() { echo $((${TIME_LIMIT:-570} - SECONDS)); }

# step NAME SECONDS LOG COMMAND...: runs the command with a time limit, appends its output to the
# log and notes the result in the summary.
step() {
  local name=$1 limit=$2 log=$out/$3 start=$SECONDS status=0 verdict=ok
  shift 3
  if [ "$limit" -gt "$(left)" ]; then limit=$(left); fi
  if [ "$limit" -lt 5 ]; then
    status=124 verdict="SKIPPED, no time left"
  else
    printf '\n#### %s: %s\n' "$name" "$*" >>"$log"
    timeout -k 10 "$limit" "$@" >>"$log" 2>&1 </dev/null || status=$?
    case $status in
      0) ;;
      124 | 137) verdict="FAILED: over its $limit s" ;;
      *) verdict="FAILED: exit $status" ;;
    esac
  fi
  printf '%-44s %4d s  %s\n' "$name" $((SECONDS - start)) "$verdict" | tee -a "$out/summary.txt"
  if [ "$status" != 0 ]; then
    failed=$((failed + 1))
    if [ -f "$log" ]; then tail -n 12 "$log" | sed 's/^/    | /'; fi
  fi
  return 0
}

# --- environment ----------------------------------------------------------------------------------
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
[ "$gpus" -gt 0 ] || fail "nvidia-smi lists no GPU."

# shellcheck source=tools/gpu-env.sh
. tools/gpu-env.sh
{
  date -u +%FT%TZ
  uname -srm
  nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv
  nvidia-smi topo -m
  nvcc --version 2>/dev/null | tail -n 2
  echo "NCCL: ${PLAIT_NCCL_LIB:-libnccl.so.2 of the system}"
  ls -l "$bundle/bin" "$bundle/lib"
} >"$out/machine.txt" 2>&1

# --- tests ----------------------------------------------------------------------------------------
step "plait-info" 60 machine.txt "$bundle/bin/plait-info"

# A program with mpi in its name runs under mpirun, once per number of GPUs; the others make their
# ranks themselves. Programs that only a test's script can start are left out: *_ranks and fuzz_*
# need arguments, setuid_program has to be made setuid, mpi_net_test wants ranks of the host on
# nodes, and choice_log_test the environment that CTest sets.
test_until=$((SECONDS + ${TEST_LIMIT:-240}))
test_step() {  # test_step NAME COMMAND...
  local name=$1 limit=$((test_until - SECONDS))
  shift
  step "$name" $((limit < 120 ? limit : 120)) tests.log "$@" \
    ${GTEST_FILTER:+"--gtest_filter=$GTEST_FILTER"}
}
for program in "$bundle"/bin/*; do
  name=${program##*/}
  case $name in
    plait-* | *_ranks | fuzz_* | setuid_program | mpi_net_test | choice_log_test) continue ;;
  esac
  if [ -n "${TESTS-}" ] && [[ " $TESTS " != *" $name "* ]]; then continue; fi
  if [ "$name" = two_devices ]; then  # without mpirun
    if [ "$gpus" -gt 1 ]; then step "$name" 60 tests.log "$program"; fi
  elif [ "$name" = two_processes ]; then  # on one GPU, Plait takes the host target by itself
    step "$name" 60 tests.log env -u PLAIT_BACKEND "$program"
  elif [[ $name == coming_from_* ]]; then  # two ranks of the host, on Plait's own libnccl.so.2
    PLAIT_BACKEND=host PLAIT_TIMEOUT=60 LD_LIBRARY_PATH=$bundle/lib:$LD_LIBRARY_PATH \
      test_step "$name" "${mpi[@]}" -n 2 "$program"
  elif [[ $name == nccl_* ]]; then  # their ranks are threads, or share a device
    PLAIT_BACKEND=host LD_LIBRARY_PATH=$bundle/lib:$LD_LIBRARY_PATH test_step "$name" "$program"
  elif ! grep -q -- '--gtest_' "$program"; then  # an example
    step "$name, $gpus GPUs" 60 tests.log "${mpi[@]}" -n "$gpus" "$program"
  elif [[ $name == *mpi* ]]; then
    for ((n = 1; n <= gpus; n++)); do
      test_step "$name, $n GPUs" "${mpi[@]}" -n "$n" "$program"
    done
    # On one GPU, several ranks run side by side.
    if [ "$gpus" = 1 ] && [[ $name == mpi_zoo_test || $name == mpi_litmus_test ]]; then
      for n in 2 3 4 8; do
        test_step "$name, $n ranks on 1 GPU" tools/mps-run.sh "$n" "$program"
      done
    fi
    if [ "$name" = mpi_zoo_test ] && [ "$gpus" -gt 1 ]; then
      NODE_GPUS=1 test_step "$name, $gpus GPUs, a node each" "${mpi[@]}" -n "$gpus" \
        tests/support/as_nodes.sh 1 "$program"
    fi
    if [ "$name" = mpi_zoo_test ]; then
      for sizes in 1,1 2,2; do  # on one GPU
        test_step "$name, nodes of $sizes ranks" tools/mps-run.sh $((2 * ${sizes%,*})) \
          tests/support/as_nodes.sh "$sizes" "$program"
      done
    fi
  else
    test_step "$name" "$program"
  fi
done
# By way of host memory, as GPUs without peer access work: also as CTest's zoo_host_memory.
for n in 2 4; do
  if [ "$gpus" -ge $n ] && [[ " ${TESTS:-zoo_host_memory} " == *" zoo_host_memory "* ]]; then
    GTEST_FILTER=${GTEST_FILTER:-*n$n} PLAIT_DISABLE_P2P=1 \
      test_step "zoo_host_memory.n$n" "$bundle/bin/zoo_test"
  fi
done
if [ -z "${TESTS-}" ] && [ -f "$bundle/bin/mpi_zoo_test" ]; then
  GTEST_FILTER=${GTEST_FILTER:-*AllTypes*:*AllCounts*} \
    test_step "mpi_zoo_test, 2 ranks, host memory" \
    env PLAIT_SHARE_DEVICES=1 PLAIT_DISABLE_P2P=1 "${mpi[@]}" -n 2 "$bundle/bin/mpi_zoo_test"
fi
# PyTorch, CuPy and JAX on Plait's libnccl.so.2, where the machine has them.
if [ -z "${TESTS-}" ] && [ -f "$bundle/lib/libnccl.so.2" ] && [ -d tests/nccl ]; then
  OUT=$(mktemp -d) LIMIT=100 step "programs of NCCL's" 400 tests.log \
    tests/nccl/run.sh "$bundle/lib/libnccl.so.2"
fi
if [ -f "$out/tests.log" ]; then
  tools/check_skips.py --list "$bundle/skips.txt" "$PLAIT_BACKEND" "$out/tests.log" \
    >>"$out/summary.txt" || failed=$((failed + 1))
fi

# --- benchmark ------------------------------------------------------------------------------------
read -ra sizes <<<"${SIZES:--b 1K -e 1G -f 4}"
read -ra bench_flags <<<"${BENCH_FLAGS-}"
[ $# -gt 0 ] || set -- "$gpus"
tables=()
for n in "$@"; do
  launch=("${mpi[@]}" -n "$n")
  peers=nccl
  if [ "$n" -gt "$gpus" ]; then launch=(tools/mps-run.sh "$n") peers=none; fi  # NCCL refuses that
  for type in ${TYPES:-f32 bf16}; do
    file=$out/bench-$n-$type
    written=(--json "$file.json")
    if [ $# = 1 ]; then written+=(--csv "$file.csv"); fi
    step "plait-bench, $n ranks, $type" 240 bench.log \
      "${launch[@]}" "$bundle/bin/plait-bench" --backend "$PLAIT_BACKEND" "${sizes[@]}" \
      -d "$type" -o sum -c 1 --in-place both --algorithms all --peers $peers --timing graph \
      "${written[@]}" "${bench_flags[@]}"
    if [ -f "$file.json" ]; then tables+=("$file.json"); fi
  done
done

if [ ${#tables[@]} -gt 0 ]; then
  python3 tools/bench-table.py "${tables[@]}" >"$out/table.md" || failed=$((failed + 1))
  cat "$out/table.md" >>"$out/summary.txt"
  rm -f "$out/table.md"
else
  tail -n 40 "$out/bench.log" 2>/dev/null
fi
if [ "$(find "$out" -maxdepth 1 -type f | wc -l)" -gt 8 ]; then
  (cd "$out" && tar czf results.tar.gz bench-*-*.* && rm -f bench-*-*.*)
fi
for file in "$out"/*.log; do  # logs stay small enough to carry
  if [ "$(stat -c %s "$file")" -gt 8000000 ]; then
    tail -c 8000000 "$file" >"$file.tail" && mv "$file.tail" "$file"
  fi
done
echo "failed steps: $failed" >>"$out/summary.txt"
printf '\n'
cat "$out/summary.txt"
[ "$failed" = 0 ]
