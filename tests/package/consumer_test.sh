#!/usr/bin/env bash
# consumer_test.sh SOURCE BUILD CMAKE GENERATOR MPIEXEC CXX CC [FC]: installs the build folder,
# moves the installation to another place, and uses it there as a stranger would: its programs,
# find_package and pkg-config, from C++, C and (if there is a compiler) Fortran.
set -euo pipefail
source=$1 build=$2 cmake=$3 generator=$4 mpiexec=$5
export CXX=$6 CC=$7 FC=${8-} PLAIT_BACKEND=host
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/moved
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
run_consumer() {  # run_consumer PROGRAM: two ranks must say OK
  "$mpiexec" --allow-run-as-root --oversubscribe -n 2 "$1" </dev/null | tee "$work/said"
  [ "$(grep -c '^OK' "$work/said")" = 2 ] || fail "not both ranks said OK"
}
needs_mpi() {  # needs_mpi FILE
  readelf -d "$1" >"$work/dynamic"
  grep -E 'NEEDED.*(mpi|MPI)' "$work/dynamic"
}
project=$source/tests/package/consumer
configure() {
  "$cmake" -S "$project" -B "$work/$1" -G "$generator" -Dplait_ROOT="$prefix" "${@:2}" \
    >"$work/$1.log" 2>&1
}
use() {  # use NAME OPTIONS...: builds the project and runs it
  configure "$@" || { cat "$work/$1.log"; fail "find_package"; }
  "$cmake" --build "$work/$1" >"$work/build.log" 2>&1 || {
    cat "$work/build.log"
    fail "the consumer was not built"
  }
  run_consumer "$work/$1/consumer"
}
expect_refusal() {  # expect_refusal NAME SENTENCE OPTIONS...: CMake wraps lines
  if configure "$1" "${@:3}"; then fail "CMake accepted ${*:3}"; fi
  tr -s ' \n' ' ' <"$work/$1.log" | grep -qF "$2" || {
    cat "$work/$1.log"
    fail "CMake does not say: $2"
  }
  echo "$2"
}

say "install, and move"
"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log" || {
  cat "$work/install.log"
  fail "the installation"
}
mv "$work/first" "$prefix"
(cd "$prefix" && find . ! -type d | sort)
package=$(dirname "$(find "$prefix" -name plaitConfig.cmake)")
pkgconfig=$(dirname "$(find "$prefix" -name plait.pc)")
for header in "$source"/include/plait/*.h*; do
  [ -f "$prefix/include/plait/${header##*/}" ] || fail "${header##*/} is not installed"
done
[ "$(find "$prefix/include" -mindepth 1 -maxdepth 1)" = "$prefix/include/plait" ] ||
  fail "more than include/plait is installed"
unlicensed=$(find "$prefix" -path '*/share/doc' -prune -o \
  \( -name '*.h' -o -name '*.hpp' -o -name '*.[fF]90' -o -name '*.inc' \) -print0 |
  xargs -0 grep -L 'SPDX-License-Identifier: Apache-2.0' || true)
[ -z "$unlicensed" ] || fail "these name no licence: $unlicensed"

say "only libplait-mpi needs MPI"
while read -r file; do
  if needs_mpi "$file"; then fail "$file needs what is above"; fi
done < <(find "$prefix" -type f \( -name 'libplait.so.*' -o -name plait-info \))
needs_mpi "$(find "$prefix" -name 'libplait-mpi.so.*' -type f)" || fail "libplait-mpi needs no MPI"

say "libplait-pmpi serves a program of MPI's"
pmpi=$(find "$prefix" -name 'libplait-pmpi.so')
[ -n "$pmpi" ] || fail "libplait-pmpi is not installed"
"$mpiexec" --allow-run-as-root --oversubscribe -n 2 env PLAIT_LOG=info LD_PRELOAD="$pmpi" \
  "$build/bin/pmpi_faults" none return </dev/null 2>&1 | tee "$work/said"
[ "$(grep -c 'MPI_Allreduce: 20 served' "$work/said")" = 2 ] || fail "it did not serve both ranks"

say "documentation"
for page in README.md docs/install.md docs/algorithms/ring.md examples/first.cpp; do
  [ -f "$prefix/share/doc/plait/$page" ] || fail "$page is not installed"
done
bash -c '. "$1/share/plait/mpi-env.sh" && "$2" --allow-run-as-root --version' - "$prefix" \
  "$mpiexec" </dev/null | head -n 1

say "uninstall"
"$cmake" --build "$build" --target help >"$work/targets"
grep -o uninstall "$work/targets" || fail "there is no such target"
"$cmake" --install "$build" --prefix "$work/again" >"$work/install.log" || {
  cat "$work/install.log"
  fail "the installation"
}
touch "$work/again/include/plait/mine.hpp"
# the target's command, without a look at what must be built
uninstall() { (cd "$build" && "$cmake" -P "$source/cmake/uninstall.cmake") 2>&1; }
uninstall
[ "$(find "$work/again" ! -type d)" = "$work/again/include/plait/mine.hpp" ] || {
  find "$work/again"
  fail "not just what is not Plait's was left"
}
[ "$(find "$work/again" -name plait)" = "$work/again/include/plait" ] ||
  fail "empty folders of Plait's were left"
if uninstall >"$work/said"; then fail "it uninstalls twice"; fi
grep -F "No install_manifest.txt" "$work/said" || { cat "$work/said"; fail "it does not say why"; }

say "no absolute paths"
for path in "$work/first" "$source" "$build"; do
  if grep -rlF "$path" "$prefix"; then fail "the files above have the path $path in them"; fi
done
# CMake itself writes /usr/lib into a build for /usr, because /lib may be a link to it.
if cat "$package"/*.cmake "$pkgconfig"/plait*.pc |
  grep -vE '/lib -> /usr/lib|_realOrig|set\(_IMPORT_PREFIX' |
    grep -E '[" ;=]/(usr|opt|home|root|tmp)/'; then
  fail "absolute paths, above"
fi
if grep -qiE '^CMAKE_INSTALL_RPATH(_USE_LINK_PATH)?:.*=(.*/.*|on|true|yes|1)$' \
  "$build/CMakeCache.txt"; then
  echo "but for those in which to look for libraries: whoever configured asked for them"
else
  while read -r file; do
    readelf -d "$file" >"$work/dynamic"
    if grep -E 'R(UN)?PATH.*(\[|:)/' "$work/dynamic"; then
      fail "$file has an absolute path to look for libraries in"
    fi
  done < <(find "$prefix" -type f \( -path '*/bin/*' -o -name '*.so*' \))
fi

if [ -x "$prefix/bin/plait-info" ]; then
  say "programs"
  "$prefix/bin/plait-info" >"$work/info"  # not into head, which may end before it does
  head -n 1 "$work/info"
  "$prefix/bin/plait-bench" --help >/dev/null
fi

say "find_package"
# a component that lacks something
echo 'find_dependency(NoSuchPackage)' >"$package/plait-hopeless.cmake"
use "without MPI"
if needs_mpi "$work/without MPI/consumer"; then fail "a program without MPI needs it"; fi
use cmake -DCONSUMER_COMPONENTS=mpi "-DCONSUMER_OPTIONAL=nothing;hopeless;fortran"
for component in nothing hopeless fortran; do
  grep "plait_${component}_FOUND: FALSE" "$work/cmake.log" || fail "component $component is there"
done

say "the dynamic linker refuses what find_package refuses: the library of another minor version"
mkdir "$work/later"
for name in "$(dirname "$package")"/../libplait.so.?*; do
  name=${name##*/}
  cp "$(find "$prefix" -name libplait.so)" "$work/later/${name/.0.1/.0.2}"
done
ls "$work/later"
mv "$prefix" "$work/away"
if LD_LIBRARY_PATH=$work/later "$work/without MPI/consumer" >"$work/said" 2>&1; then
  fail "a program made for 0.1 runs with 0.2"
fi
grep -F "libplait.so.0.1: cannot open shared object file" "$work/said" || {
  cat "$work/said"
  fail "not for want of libplait.so.0.1"
}
mv "$work/away" "$prefix"

say "find_package refuses"
expect_refusal version 'compatible with requested version "99"' -DCONSUMER_VERSION=99
expect_refusal older 'compatible with requested version "0.0.9"' -DCONSUMER_VERSION=0.0.9
expect_refusal component "component nothing is not installed with this Plait" \
  "-DCONSUMER_COMPONENTS=mpi;nothing"
expect_refusal hopeless \
  "component hopeless can't be used: plait could not be found because dependency NoSuchPackage" \
    -DCONSUMER_COMPONENTS=hopeless
expect_refusal "no Fortran" "component fortran can't be used: the project has not enabled Fortran" \
  -DCONSUMER_COMPONENTS=fortran

say "find_package warns of another MPI"
if grep -q "Plait was built with" "$work/cmake.log"; then
  fail "CMake warns of the MPI that it was built with"
fi
mkdir "$work/mpi"  # one that is Open MPI if the library's is not, and the reverse
if grep -qF '#if !defined(OPEN_MPI)' "$package/plait-mpi.cmake"; then echo '#define OPEN_MPI 1'; \
  fi >"$work/mpi/mpi.h"
cat >"$work/mpi.cmake" <<EOF
add_library(MPI::MPI_CXX INTERFACE IMPORTED)
target_include_directories(MPI::MPI_CXX INTERFACE "$work/mpi")
EOF
configure "another MPI" -DCONSUMER_COMPONENTS=mpi \
  -DCMAKE_PROJECT_consumer_INCLUDE="$work/mpi.cmake" || {
  cat "$work/another MPI.log"
  fail "another MPI is an error"
}
tr -s ' \n' ' ' <"$work/another MPI.log" |
  grep -oE "Plait was built with [^:]*, which this project's MPI is not" ||
    fail "CMake does not warn of another MPI"

say "find_package, from C"
project=$source/tests/package/consumer/c
use c
use "c with MPI" "-DCONSUMER_COMPONENTS=c;mpi"
use "MPI and c" "-DCONSUMER_COMPONENTS=mpi;c"
use "MPI alone" -DCONSUMER_COMPONENTS=mpi
expect_refusal "no C++" "ask for COMPONENTS c or fortran" -DCONSUMER_COMPONENTS=

if [ -n "$FC" ]; then
  # Makefiles, CMake's default, look for modules without a preprocessor.
  say "find_package, from Fortran, with makefiles"
  project=$source/tests/package/consumer/fortran
  generator="Unix Makefiles" use fortran
  if needs_mpi "$work/fortran/consumer"; then fail "the module plait needs MPI"; fi
  generator="Unix Makefiles" use fortran -DCONSUMER_CALLS_MPI=ON
  run_consumer "$work/fortran/consumer_mpi"
  generator="Unix Makefiles" use "fortran and C++" -DCONSUMER_CALLS_MPI=ON \
    "-DCONSUMER_LANGUAGES=CXX;Fortran"
  run_consumer "$work/fortran and C++/consumer_mpi"
  "$cmake" --install "$work/fortran" --prefix "$work/totals" >"$work/install.log" || {
    cat "$work/install.log"
    fail "the library on top of it"
  }
  project=$source/tests/package/consumer/fortran/user
  generator="Unix Makefiles" use "a library in Fortran" -Dtotals_ROOT="$work/totals"
else
  say "Fortran: not tried, there is no compiler"
fi

if command -v pkg-config >/dev/null; then
  say "pkg-config"
  export PKG_CONFIG_PATH=$pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  [ "$(pkg-config --print-requires plait)" = "" ] || fail "plait.pc requires more"
  pkg-config --print-requires plait-mpi
  for module in plait plait-mpi; do
    cp -r "$source/tests/package/consumer" "$work/$module"
    variables=(MODULE=$module)
    if [ $module = plait-mpi ]; then variables+=(FLAGS=-DCONSUMER_CALLS_MPI); fi
    make -C "$work/$module" "${variables[@]}"
    run_consumer "$work/$module/consumer"
    make -C "$work/$module/c" "${variables[@]}"
    run_consumer "$work/$module/c/consumer"
  done
  folder=$(pkg-config --variable=fortrandir plait)
  [ -f "$folder/plait.f90" ] || fail "plait.pc's fortrandir has no plait.f90"
  if [ -n "$FC" ]; then  # in the order of docs/c.md
    mkdir "$work/by-hand"
    sources=("$folder"/plait_{c,base,arrays}.f90 "$folder"/plait_*.F90
      "$folder/plait.f90" "$source"/tests/package/consumer/fortran/{totals,main}.f90)
    # shellcheck disable=SC2046
    (cd "$work/by-hand" && "$FC" -o consumer "${sources[@]}" $(pkg-config --libs plait) \
      -Wl,-rpath,"$(pkg-config --variable=libdir plait)")
    run_consumer "$work/by-hand/consumer"
  fi
  if pkg-config --exists "plait >= 99"; then fail "pkg-config takes this Plait for version 99"; fi

  say "pkg-config, for folders given as absolute paths"
  elsewhere() {  # elsewhere VARIABLE: what plait.pc says, of a build folder that is only configured
    PKG_CONFIG_PATH=$work/elsewhere/package pkg-config --variable="$1" plait
  }
  "$cmake" -S "$source" -B "$work/elsewhere" -G "$generator" -DPLAIT_TESTS=OFF -DPLAIT_BENCH=OFF \
    -DPLAIT_EXAMPLES=OFF -DPLAIT_FORTRAN=OFF -DPLAIT_KOKKOS=OFF \
    -DCMAKE_INSTALL_PREFIX=/opt/p -DCMAKE_INSTALL_LIBDIR=/opt/p-lib/lib \
      -DCMAKE_INSTALL_INCLUDEDIR=/opt/p-dev/include >"$work/elsewhere.log" 2>&1 ||
    { cat "$work/elsewhere.log"; fail "the configuration"; }
  [ -f "$work/elsewhere/package/plait-mpi.pc" ] || fail "there is no plait-mpi.pc"
  [ "$(elsewhere libdir) $(elsewhere includedir)" = "/opt/p-lib/lib /opt/p-dev/include" ] ||
    fail "plait.pc: $(elsewhere libdir), $(elsewhere includedir)"
else
  say "pkg-config: not tried, it is not installed"
fi
say "passed"
