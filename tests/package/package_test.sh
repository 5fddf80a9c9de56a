#!/usr/bin/env bash
# package_test.sh BUILD CPACK VERSION INTERFACE: makes the Debian packages and looks into them;
# nothing is installed.
set -euo pipefail
build=$1 cpack=$2 version=$3 interface=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
"$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$work" >"$work/log" 2>&1 || {
  cat "$work/log"
  fail "cpack"
}

# Paths in a package, as a file: grep -q stops at the first, and a writer to a pipe would then be
# killed, which counts as a failure.
paths_of() { local name=${1##*/}; printf '%s' "$work/${name%%_*}.paths"; }  # paths_of FILE.deb
for file in "$work"/*.deb; do dpkg-deb -c "$file" | awk '{ print $6 }' >"$(paths_of "$file")"; done
expect() {  # expect PACKAGE REGEX...: one that a path in the package must match, each
  local package=$1 regex
  shift
  for regex in "$@"; do
    grep -Eq "$regex" "$work/$package.paths" || fail "$package has nothing like $regex"
  done
}
field() { dpkg-deb -f "$work/$1"_*.deb "$2"; }

for file in "$work"/*.deb; do
  printf '\n== %s\n' "${file##*/}"
  dpkg-deb -I "$file" | grep -E '^ (Package|Version|Depends|Recommends|Section|Installed-Size):'
  dpkg-deb -c "$file" | awk '$1 !~ /^d/ { print "  " $6, $7, $8 }'
  if grep -vE '^\./(usr/.*)?$' "$(paths_of "$file")"; then
    fail "${file##*/} has files outside /usr"
  fi
done
library=libplait$interface
mpi_library=libplait-mpi$interface
expect "$library" "/libplait\.so\.$interface$" "/libplait\.so\.$version$"
expect "$mpi_library" "/libplait-mpi\.so\.$interface$" "/libplait-mpi\.so\.$version$" \
  "/libplait-pmpi\.so\.$interface$"
expect libplait-mpi-dev '/libplait-mpi\.so$' '/include/plait/mpi\.hpp$' \
  '/include/plait/plait_mpi\.h$' '/plait-mpi\.cmake$' '/plait-mpi\.pc$' \
    '/fortran/plait_mpi\.f90$'
expect libplait-dev '/libplait\.so$' '/include/plait/plait\.hpp$' '/include/plait/plait\.h$' \
  '/fortran/plait\.f90$' '/plaitConfig\.cmake$' '/plait\.pc$' '/doc/plait/docs/install\.md$' \
    '/doc/plait/examples/CMakeLists\.txt$' '/share/plait/mpi-env\.sh$'
[ ! -f "$work"/libplait-nccl_*.deb ] || expect libplait-nccl '/plait/libnccl\.so\.2$'
[[ $(field "$library" Depends) == *libc6* ]] ||
  fail "$library does not depend on libc6: was dpkg-shlibdeps asked?"
for package in "$library" libplait-dev; do
  if field "$package" Depends | grep -i mpi; then fail "$package depends on MPI"; fi
  if grep -E '[-/](plait_)?mpi\.(h|hpp|so|f90|pc|cmake)$' "$work/$package.paths"; then
    fail "$package has the paths above"
  fi
done
[[ $(field "$mpi_library" Depends) =~ libopenmpi|libmpich ]] ||
  fail "$mpi_library does not depend on MPI"
[[ $(field libplait-mpi-dev Depends) =~ mpi[a-z-]*-dev ]] || fail "libplait-mpi-dev has no mpi.h"
for part in "$mpi_library" libplait-dev; do
  [[ $(field libplait-mpi-dev Depends) == *"$part (= $version)"* ]] ||
    fail "libplait-mpi-dev does not depend on $part (= $version)"
done
for package in libplait-dev libplait-nccl plait-tools "$mpi_library"; do
  [ -f "$work/$package"_*.deb ] || continue
  [[ $(field "$package" Depends) == *"$library (= $version)"* ]] ||
    fail "$package does not depend on $library (= $version)"
done
for file in "$work"/*.deb; do
  package=${file##*/}
  package=${package%%_*}
  dpkg-deb -x "$file" "$work/unpacked"
  size=$(find "$work/unpacked" -type f -printf '%s\n' |
    awk '{ kb += int(($1 + 1023) / 1024) } END { print kb + 0 }')
  others=$(find "$work/unpacked" ! -type f | wc -l)
  declared=$(field "$package" Installed-Size)
  [ "$declared" -ge "$size" ] && [ "$declared" -le $((size + others)) ] ||
    fail "$package: Installed-Size is $declared; its files have $size KB"
  rm -rf "$work/unpacked"
  expect "$package" "^\./usr/share/doc/$package/copyright$"
  [[ $(field "$package" Maintainer) =~ ^[^\<]+\ \<[^@]+@[^@]+\.[^@]+\>$ ]] ||
    fail "$package: Maintainer is '$(field "$package" Maintainer)'"
done
dpkg-deb --fsys-tarfile "$work/$library"_*.deb |
  tar -xO "./usr/share/doc/$library/copyright" >"$work/copyright"
grep -q '^License: Apache-2.0' "$work/copyright" ||
  fail "the licence is not in $library's copyright"
# Another version's library can be installed beside this one: nothing in its package has a path that
# the other would have.
for name in libplait libplait-mpi; do
  if grep -vE "/$|/libplait(-p?mpi)?\.so\.$interface(\.|$)|/$name$interface/" \
    "$work/$name$interface.paths"; then
    fail "the paths above are not for $name$interface alone"
  fi
done
printf '\npassed\n'
