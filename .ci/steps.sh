#!/usr/bin/env bash
# The steps of .ci/run and .ci/full, which source this file. Each is a function that fails on what
# it finds. All run in the repository's root, on the host, without a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
export PLAIT_PRESET=host

# Warnings are errors. Fortified library calls bring more of them: Ubuntu's compilers fortify by
# default, so this does, too.
readonly strict=(-DPLAIT_WERROR=ON -DCMAKE_C_FLAGS=-D_FORTIFY_SOURCE=3
  -DCMAKE_CXX_FLAGS=-D_FORTIFY_SOURCE=3)
export PLAIT_CMAKE_OPTIONS="${strict[*]}"  # for ./run
readonly tidy_files_at_most=${PLAIT_TIDY_FILES:-12}  # a file takes 5 to 15 seconds
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
# .ci/run does less.
fuzz_seconds=30 gpu_kernels=all cuda_architectures=90 hip_architectures='gfx90a;gfx942'
keeps_going=0  # after a step that fails
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
times=() failed=()

step() {  # step "NAME" COMMAND...
  local name=$1 start=$SECONDS status=0
  shift
  printf '\n#### %s\n' "$name"
  # In a separate process, because `set -e` is off inside a condition.
  (set -e; "$@") &
  wait $! || status=$?
  times+=("$(printf '%5d s  %s' $((SECONDS - start)) "$name")")
  printf '#### %s: %s, %d s\n' "$name" "$([ $status = 0 ] && echo passed || echo FAILED)" \
    $((SECONDS - start))
  if [ $status != 0 ]; then
    failed+=("$name")
    [ $keeps_going = 1 ] || finish
  fi
}

# The last lines: the steps' times, what has failed, and `N passed, N failed`. Ends the script.
finish() {
  printf '\n'
  printf '%s\n' "${times[@]}"
  printf '%5d s  in all\n' $SECONDS
  if [ ${#failed[@]} != 0 ]; then printf 'FAILED: %s\n' "${failed[@]}"; fi
  count_tests
  exit $((${#failed[@]} > 0))
}

sources() { git ls-files --cached --others --exclude-standard "$@"; }

# All targets share one source: only backends/ may ask which target is being compiled.
no_vendor_conditions() {
  local found vendors='CUDA|NVCC|__HIP|HIPCC|AMDGCN|PLAIT_HIP|__gfx|__clang_cuda'
  found=$(sources '*.hpp' '*.h' '*.c' '*.cpp' '*.cu' '*.cuh' '*.hip' | grep -v '^backends/' |
    xargs -r grep -nHE "^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef|elif)\b.*($vendors)" || true)
  if [ -n "$found" ]; then
    printf 'vendor conditions outside backends/:\n%s\n' "$found"
    return 1
  fi
  echo "none"
}

# nvcc 13.0 drops the loop after a discarded `if constexpr` without braces
# (backends/device/device.hpp).
braces_in_kernels() {
  local found
  found=$(sources '*.hpp' '*.cuh' | grep -E '^(algorithms|backends)/' |
    xargs -r grep -nHE 'if constexpr \(.*\)([^{]*;|[^{]*)$' || true)
  if [ -n "$found" ]; then
    printf 'if constexpr without braces in kernel code:\n%s\n' "$found"
    return 1
  fi
  echo "all there"
}

# clang-format wraps no comments, and knows neither CMake nor scripts.
columns() {
  local found
  found=$(sources '*.hpp' '*.h' '*.c' '*.cpp' '*.cu' '*.cuh' '*.hip' '*.in' '*.f90' '*.rules' \
    '*.factors' '*.sh' '*.py' '*.cmake' '*CMakeLists.txt' run .ci/run .ci/full .ci/steps.sh |
    xargs -r awk 'length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns" }')
  if [ -n "$found" ]; then
    printf 'lines of more than 100 columns:\n%s\n' "$found"
    return 1
  fi
  echo "none has more"
}

# Weight is paid by all who come later. Whoever needs more raises these, and says for what: last for
# leaders and checksums between nodes, what a launch and a signal cost, MPI programs as they are,
# calls that run on the thread that waits for them.
readonly lines_of_code=80000 lines_of_tests=58200 lines_of_a_file=400 bytes_of_host_text=4520000
weight() {
  sources '*.hpp' '*.h' '*.c' '*.cpp' '*.cu' '*.cuh' '*.hip' '*.in' '*.f90' | xargs -r wc -l |
    awk -v code=$lines_of_code -v tests=$lines_of_tests -v most=$lines_of_a_file '
      $2 == "total" { next }
      { sum[$2 ~ /^tests\//] += $1 }
      $1 > most { print $2 ": " $1 " lines, more than " most; long = 1 }
      END {
        printf "%d lines without tests (at most %d), %d of tests (at most %d)\n", sum[0], code,
          sum[1], tests
        exit long || sum[0] > code || sum[1] > tests
      }'
}

formatted() {
  sources '*.hpp' '*.h' '*.c' '*.cpp' '*.cu' '*.cuh' '*.hip' |
    xargs -r clang-format --dry-run -Werror
}

# skips [--complete] PRESET: prints which tests of its last run were skipped, and why. Fails if one
# is not expected. The tests of every preset run on the host here.
skips() { tools/check_skips.py "${@:1:$#-1}" host "build-${!#}/tests.xml"; }

# Kokkos and Fortran must take part here, and programs that make packages; `run` alone leaves out
# what can't be installed.
host_tests() {
  local test
  ./run test 2>&1 | tee "$logs/host"
  for test in kokkos.n3 fortran_interface.n3 package; do
    grep -qE " ${test//./\\.} .*Passed" "$logs/host" || {
      echo "$test did not run"
      return 1
    }
  done
  skips --complete host
  local text
  text=$(readelf -SW build-host/lib/libplait.so |
    sed -nE 's/.* \.text +PROGBITS +\w+ +\w+ (\w+) .*/\1/p')
  echo "libplait.so: $((16#$text)) bytes of machine code"
  [ $((16#$text)) -le $bytes_of_host_text ] || { echo "more than $bytes_of_host_text"; return 1; }
}

# The front door's other verbs, at their smallest; what they need is built.
front_door() {
  local folder tiny=(-b 1K -e 1K -n 2 -w 0)
  folder=$(mktemp -d)
  ./run demo "${tiny[@]}" | tee "$folder/said"
  [ "$(grep -c '^# checked: [1-9].* elements, 0 wrong$' "$folder/said")" = 2 ] || return 1
  [ "$(wc -l <"$folder/said")" -le 40 ] || { echo "the demo prints more than 40 lines"; return 1; }
  ./run bench "${tiny[@]}" -C all_gather --peers none --report "$folder/page.html"
  ./run sweep quick --ranks 2 --out "$folder" -- "${tiny[@]}" -C all_reduce -d f32 --peers none
  ls -l build-host/report.html "$folder/page.html" "$folder/report.html"
  rm -rf "$folder"
}

picture() {
  /usr/bin/python3 tools/report.py docs/benchmarks/data/h200-4-all-reduce.json \
    --svg docs/benchmarks/all-reduce-h200.svg --names default,peer:nccl,peer:nccl-symmetric --check
}

# gpu_objects BUILD SUFFIX BACKEND: what .ci/run compiles for a GPU target, as names of objects: the
# kernels that have changed, one of each kind, because what they share may have changed, and the
# backend's own files.
readonly one_of_each_kind=(barrier flash pairwise rails ring twoshot twoshot_ll128 twoshot_sentinel)
gpu_objects() {
  local build=$1 suffix=$2 header kernel
  {
    printf '%s\n' "${one_of_each_kind[@]}"
    changed | { grep -E '^algorithms/.*kernel\.hpp$' || true; } | while read -r header; do
      for kernel in $(grep -lF "\"$header\"" "$build"/kernels/*."$suffix" || true); do
        basename "$kernel" ".$suffix"
      done
    done
  } | sort -u | sed "s|.*|CMakeFiles/plait.dir/kernels/&.$suffix.o|"
  printf 'CMakeFiles/plait.dir/%s.o\n' "backends/$3"/*.cpp
}

# nvdisasm, which reads the words' machine code: from PyPI, where the toolkit lacks it. Prints
# nothing where that can't be had either.
find_nvdisasm() {
  local folder=$PWD/build-cuda/nvdisasm
  command -v nvdisasm && return
  python3 -m pip install -q --no-deps --target "$folder" nvidia-cuda-nvdisasm >&2 || true
  find "$folder" -name nvdisasm -type f 2>/dev/null || true
}
cuda_compiles() {
  export CUDACXX=$1 CCACHE_DEPEND=1  # by the text of headers: the preprocessor sees the host's side
  local targets unity=(-DCMAKE_UNITY_BUILD=OFF)
  # Only targets that contain kernels or link them, and the one test that the host target lacks: its
  # build has already compiled the host code of the others.
  targets=(plait plait-bench plait-info plait-tune conversions_test litmus_test zoo_test
    own_reduction slices mpi_cuda_attach_test)
  if [ $gpu_kernels = all ]; then unity=(); fi
  cmake --preset cuda "${strict[@]}" -DCMAKE_CUDA_ARCHITECTURES=$cuda_architectures "${unity[@]}"
  if [ $gpu_kernels != all ]; then
    mapfile -t targets < <(gpu_objects build-cuda cuda.cu cuda)
    targets+=(tests/cuda/CMakeFiles/mpi_cuda_attach_test.dir/mpi_cuda_attach_test.cpp.o)
  fi
  cmake --build --preset cuda --parallel "$(nproc)" --target "${targets[@]}"
  # They read the PTX and the machine code: no GPU is needed.
  NVDISASM=$(find_nvdisasm) ctest --preset cuda -R '^(flash_ptx|cuda_words)$' 2>&1 |
    tee "$logs/cuda"
  [ $gpu_kernels = all ] || return 0
  local bytes
  bytes=$(stat -Lc %s build-cuda/lib/libplait.so)
  echo "libplait.so: $bytes bytes"
  # Catches a megabyte of accidental kernels. (docs/install.md has the bytes of each algorithm's.)
  [ "$bytes" -lt 23600000 ] || {
    echo "more than 23.6 MB"
    return 1
  }
  if readelf -d build-cuda/lib/libplait.so | grep STATIC_TLS; then
    echo "it has static thread-local memory: a running program could not load it"
    return 1
  fi
}

# Compiles for AMD GPUs with the parts of ROCm that Debian has. Then runs the tests that
# need no AMD GPU: they read the machine code of every kernel and try this build's host target.
hip_compiles() {
  export CCACHE_DEPEND=1
  tools/rocm-root.sh
  if [ $gpu_kernels != all ]; then
    hip_compiles_changes
    return
  fi
  cmake --preset hip "${strict[@]}" "-DCMAKE_HIP_ARCHITECTURES=$hip_architectures"
  cmake --build --preset hip --parallel "$(nproc)" --target plait plait-bench plait-info \
    plait-tune zoo_test mpi_zoo_test communicator_test mpi_hip_memory_test hip_lease_test \
    own_kernels_test own_reduction
  # shellcheck source=tools/mpi-env.sh
  . tools/mpi-env.sh
  export PLAIT_SCRATCH_BYTES=16M  # as tests/CMakeLists.txt does for the host target
  ctest --preset hip -R '^(zoo\.n3|mpi_zoo\.n2|communicator_test)$|hip' 2>&1 | tee "$logs/hip"
  skips hip
}
hip_compiles_changes() {
  local objects clang sentinels
  cmake --preset hip "${strict[@]}" "-DCMAKE_HIP_ARCHITECTURES=$hip_architectures" -G Ninja \
    -DCMAKE_UNITY_BUILD=OFF
  mapfile -t objects < <(gpu_objects build-hip hip hip)
  cmake --build --preset hip --parallel "$(nproc)" --target "${objects[@]}"
  (cd build-hip && cat CMakeFiles/plait.dir/kernels/*.hip.o >kernels.hip.o)
  clang=$(sed -n 's/^CMAKE_HIP_COMPILER:[A-Z]*=//p' build-hip/CMakeCache.txt)
  # Their fences are for the call after them.
  sentinels=$(cd build-hip/CMakeFiles/plait.dir/kernels && printf '%s\n' *_sentinel.hip.o)
  tests/hip/isa_test.sh library "$clang" "$hip_architectures" build-hip/kernels.hip.o \
    --fences "$(paste -sd, <<<"${sentinels//.hip.o/}")"
  ctest --preset hip -R '^hip_isa\.(rules|probes|words)$' 2>&1 | tee "$logs/hip"
}

# Compiles the HIP backend's host code for HIP's NVIDIA platform: only the files that differ from
# the CUDA build.
hip_nvidia_compiles() {
  export CUDACXX=$1 CCACHE_DEPEND=1
  cmake --preset hip-nvidia "${strict[@]}" -DCMAKE_CUDA_ARCHITECTURES=90 -G Ninja \
    -DCMAKE_UNITY_BUILD=OFF
  local objects=CMakeFiles/plait.dir
  cmake --build --preset hip-nvidia --parallel "$(nproc)" --target \
    $objects/backends/hip/{hip_backend,hip_range,ipc,lease,program_memory,rocm_smi}.cpp.o \
    $objects/kernels/barrier.hip.cu.o
}

# A missing or unusable ROCm or CUDA must be refused with one sentence.
configure_errors() {
  local folder
  folder=$(mktemp -d)
  expect_refusal() {  # expect_refusal SENTENCE COMMAND...
    local sentence=$1 said
    shift
    if said=$("$@" 2>&1); then
      echo "accepted: $*"
      return 1
    fi
    grep -qF "$sentence" <<<"$(tr '\n' ' ' <<<"$said" | tr -s ' ')" || {
      printf '%s\n' "$said"
      return 1
    }
    echo "$sentence ..."
  }
  mkdir -p "$folder/old/include/hip"
  printf '#define HIP_VERSION_MAJOR 4\n#define HIP_VERSION_MINOR 3\n' \
    >"$folder/old/include/hip/hip_version.h"
  expect_refusal "no ROCm was found" \
    cmake --preset hip -B "$folder/a" -DPLAIT_ROCM_SEARCH="$folder/none"
  expect_refusal "is HIP 4.3" cmake --preset hip -B "$folder/b" -DPLAIT_ROCM_ROOT="$folder/old"
  expect_refusal "a library has one of the two" cmake --preset hip -B "$folder/c" -DPLAIT_CUDA=ON
  expect_refusal "it is amd or nvidia" \
    cmake --preset hip -B "$folder/d" -DPLAIT_HIP_PLATFORM=intel
  expect_refusal "there is no algorithm 'rings'" \
    cmake --preset host -B "$folder/e" "-DPLAIT_ALGORITHMS=stream;rings"
  expect_refusal "PLAIT_TESTS=ON needs PLAIT_ALGORITHMS=all" \
    cmake --preset host -B "$folder/f" -DPLAIT_ALGORITHMS=stream -DPLAIT_TESTS=ON
  expect_refusal "PLAIT_TESTS=ON needs MPI" \
    cmake --preset host -B "$folder/g" -DPLAIT_MPI=OFF -DPLAIT_TESTS=ON
  rm -rf "$folder"
}

race_tests() {
  # shellcheck source=tools/mpi-env.sh
  . tools/mpi-env.sh
  # Not fortified, because the sanitizer knows only the plain calls.
  cmake --preset tsan -DPLAIT_WERROR=ON
  cmake --build --preset tsan --parallel "$(nproc)" --target race_tests
  ctest --preset tsan 2>&1 | tee "$logs/tsan"
  skips tsan
}

# Memory errors and undefined behaviour in the code that each host call goes through, with ranks as
# threads, in the build of the fuzz targets. The kernels there are not instrumented, because they
# take most of the time to compile; guard bands around each buffer catch their stray writes.
address_tests() {
  # shellcheck source=tools/mpi-env.sh
  . tools/mpi-env.sh
  local tests=(types_test selection_test stream_test host_memory_test memory_test bootstrap_test
    error_test trace_test threads_test)
  local files=(communicator/{communicator_state,groups/open_group} bootstrap/link_bootstrap
    symm_mem/descriptor_exchange kernels/ring.host)
  files=("${files[@]/#/CMakeFiles/plait.dir/}")
  # A sample of each kind of file shows that the preset asan compiles with g++.
  cmake --preset asan -G Ninja -DCMAKE_UNITY_BUILD=OFF
  cmake --build --preset asan --parallel "$(nproc)" --target "${files[@]/%/.cpp.o}"
  cmake --build --preset fuzz --parallel "$(nproc)" --target "${tests[@]}"
  ctest --preset fuzz -R "^($(IFS='|'; echo "${tests[*]}"))$" 2>&1 | tee "$logs/asan"
  grep -q "out of ${#tests[@]}$" "$logs/asan" || {
    echo "these are not the ${#tests[@]} tests: ${tests[*]}"
    return 1
  }
  skips fuzz
}

# newest PACKAGE: the name of the distribution's newest package PACKAGE-NUMBER.
newest() { apt-cache search --names-only "^$1-[0-9]+$" | awk '{ print $1 }' | sort -V | tail -n 1; }

# Writes to build-host/each/compile_commands.json how each file of the host build is compiled by
# itself, without the precompiled header, which clang can't read.
each_file() {
  cmake --preset host "${strict[@]}" -B build-host/each -DCMAKE_UNITY_BUILD=OFF >/dev/null
  sed -i -E 's/ -Winvalid-pch -include [^ ]+//' build-host/each/compile_commands.json
}

# Looks for warnings of the newest packaged g++ and clang in everything that the host build
# compiles, except most kernels and the tests. Two kernels suffice, because the text of all is in
# headers. No object files are kept.
newest_compilers() {
  local package compiler way work
  work=$(mktemp -d)
  each_file
  for package in $(newest 'g\+\+') $(newest clang); do
    compiler=${package/#clang/clang++}
    way="-S -o /dev/null"  # g++ gives many warnings only after it has optimised
    # clang 22 finds a deprecated name in std::stable_sort of libstdc++ 12.
    if [ "$compiler" != "$package" ]; then way="-fsyntax-only -Wno-deprecated-declarations"; fi
    if [ "$("$compiler" -dumpfullversion 2>/dev/null)" = "$(c++ -dumpfullversion)" ]; then
      echo "$compiler: already used for the host build"
      continue
    fi
    if ! command -v "$compiler" >/dev/null; then
      apt-get install -y --no-install-recommends "$package" >"$work/install" 2>&1 || {
        cat "$work/install"
        return 1
      }
    fi
    "$compiler" --version | head -n 1
    python3 - "$compiler" "$way" >"$work/commands" <<'EOF'
import json, os, re, sys
wanted = re.compile(r"(?<!\.host)\.cpp$|/(ring|flash)\.host\.cpp$")
test = re.compile(r"/tests/(.*test\.cpp$|interop/pages/)")  # pages: from what a build generates
for entry in json.load(open("build-host/each/compile_commands.json", encoding="utf-8")):
    file = entry["file"]
    if wanted.search(file) and not test.search(file) and os.path.exists(file):
        command = re.sub(r" -o \S+ -c ", f" {sys.argv[2]} ", entry["command"])
        print(f"cd {entry['directory']} && {sys.argv[1]} {command.split(' ', 1)[1]}")
EOF
    printf '%s files\n' "$(wc -l <"$work/commands")"
    xargs -d '\n' -n 1 -P "$(nproc)" sh -c <"$work/commands"
  done
  rm -rf "$work"
}

# The commit that changes are counted from: where this branch left origin/main or, on main itself,
# the newest one that is a day older than HEAD. Nothing in a clone without either.
base() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-list -1 --before=$(($(git log -1 --format=%ct) - 86400)) HEAD)
  fi
  printf '%s' "$base"
}

# The files that changed since then, with those that git does not know yet. All without a base.
changed() {
  local base
  base=$(base)
  if [ -n "$base" ]; then
    {
      git diff --name-only --diff-filter=d "$base"
      git ls-files --others --exclude-standard
    } | sort -u
  else
    sources
  fi
}

tidy() {
  local file files=()
  each_file
  while read -r file; do  # only files of the host build; the library comes before its tests
    if grep -qF "/$file\"" build-host/each/compile_commands.json; then files+=("$file"); fi
  done < <(changed | grep '\.cpp$' | awk '{ print (/^(tests|bench|examples)\// ? 1 : 0) "\t" $0 }' |
    sort -s -k1,1n | cut -f2)
  echo "${#files[@]} changed files, at most $tidy_files_at_most looked at"
  [ ${#files[@]} -gt 0 ] || return 0
  printf '%s\n' "${files[@]:0:tidy_files_at_most}" | xargs -P "$(nproc)" -n 1 \
    clang-tidy --quiet -p build-host/each \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error
}

# Prints the last line, `N passed, N failed`: the sum of ctest's summaries so far.
count_tests() {
  [ -n "$(ls "$logs")" ] || return 0  # no test has run yet
  cat "$logs"/* | sed -nE 's/^.*tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' |
    awk '{ failed += $1; all += $2 } END { printf "%d passed, %d failed\n", all - failed, failed }'
}

# --- the two tiers --------------------------------------------------------------------------------

cuda() {
  [ -x "$nvcc" ] || { echo "not compiled, there is no nvcc"; return; }
  cuda_compiles "$nvcc"
}
hip() {
  hip_compiles
  [ ! -x "$nvcc" ] || hip_nvidia_compiles "$nvcc"
}
documentation() { ./run docs; }
# Another system than this one, with Open MPI 5, and as a user, because a try takes 26 minutes. What
# root meets on a bare bookworm is in the short form, and in the host tests of a fresh clone.
newcomer() { tools/newcomer.sh --as user trixie; }
fuzz() { PLAIT_FUZZ_SECONDS=${PLAIT_FUZZ_SECONDS:-$fuzz_seconds} tools/fuzz.sh; }

# The steps of .ci/full that .ci/run takes if a file has changed that they look at: a function, and
# a pattern of these files. tests/package/ci_test.sh tries the table.
readonly kernels='^algorithms/.*\.hpp$|^backends/device/|(^|/)kernel\.hpp$|^cmake/PlaitKernels'
readonly by_files=(
  "documentation ^docs/|\.md$|^include/|^cmake/PlaitDocs"
  "cuda          $kernels|^backends/(gpu|cuda)/|^tests/(cuda|words)/|^cmake/PlaitCuda"
  "hip           $kernels|^backends/(gpu|hip)/|^tests/(hip|words)/|^cmake/PlaitHip|^tools/rocm-root"
  "race_tests    $kernels|^backends/host/|^(core|symm_mem|transport|communicator)/.*\.[ch]pp$"
  "fuzz          ^tests/fuzz/|^communicator/selection/|^(symm_mem|bootstrap)/|^interop/c/"
  "address_tests ^(bootstrap|symm_mem|core)/.*\.[ch]pp$|^communicator/groups/|^backends/host/"
  "configure_errors ^CMakePresets|(^|/)CMakeLists.txt$|^cmake/"
  "newest_compilers ^include/|^core/|^interop/c/"
)

# called_for [FILE...]: the functions of that table that the files, or else the changes, call for.
called_for() {
  local files function pattern
  files=$(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else changed; fi)
  while read -r function pattern; do
    if grep -qE "$pattern" <<<"$files"; then echo "$function"; fi
  done < <(printf '%s\n' "${by_files[@]}")
}

ready() {
  step "set-up" ./run setup lint docs browser
  if command -v ninja >/dev/null; then export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}; fi
  # With ccache the builds share the objects of the host target, and a later run on the same machine
  # compiles only what changed: kernels take most of the time.
  export CMAKE_{C,CXX,CUDA,HIP}_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros  # for the tests' precompiled header
}

check_sources() {
  step "no vendor conditions outside backends/" no_vendor_conditions
  step "braces after if constexpr in kernels" braces_in_kernels
  step "floors: no include points up" tools/check_floors.py
  step "links in the documentation" tools/check_links.py
  step "the README's picture is made from its figures" picture
  # shellcheck disable=SC2046
  step "the pages' tables are made from their files" \
    tools/bench-table.py --page $(grep -rl '<!-- bench-table: ' docs) --check
  step "lines" weight
  step "clang-format" formatted
  step "100 columns" columns
}

check_host() {
  step "host tests" host_tests
  step "demo, bench and sweep" front_door
  step "a bare machine" tools/newcomer.sh --short build-host
}
