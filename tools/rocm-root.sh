#!/usr/bin/env bash
# tools/rocm-root.sh [FOLDER]: makes a ROCm root that compiles and links for AMD GPUs on Debian 12,
# in seconds and 5 MB. It contains HIP's headers and device libraries of Debian 13 (unpacked, not
# installed), Debian 12's own runtime to link with, and the package that CMake's HIP language asks
# for. The default FOLDER is build-rocm, where `cmake --preset hip` looks. Needs clang-19
# clang-tools-19 lld-19 llvm-19 libamdhip64-5, and installs them as root. Programs built with it
# start on a machine without AMD GPUs and find none; to run on GPUs, build with a real ROCm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=${1:-build-rocm}
mkdir -p "$root"
root=$(cd "$root" && pwd)
fail() { printf 'rocm-root: %s\n' "$*" >&2; exit 1; }

packages=(clang-19 clang-tools-19 lld-19 llvm-19 libamdhip64-5)
missing=$(for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || echo "$package"
done | paste -sd ' ')
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] || fail "missing packages: $missing; install them as root."
  # shellcheck disable=SC2086
  {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing
  } </dev/null >"$root/install.log" 2>&1 || {
    tail -n 20 "$root/install.log" >&2
    fail "apt-get could not install: $missing"
  }
fi
if [ -f "$root/complete" ]; then
  echo "rocm-root: $root is there."
  exit
fi

work=$(mktemp -d)
chmod 755 "$work"  # apt's own user looks inside
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
# The mirror that this machine already uses.
mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME)' |
  awk '$2 == "bookworm" { print $1; exit }')
[ -n "$mirror" ] || fail "this is for Debian 12; elsewhere install ROCm."
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" \
  >"$work/sources"
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
  -o "APT::Sandbox::User=$(id -un)")
"${apt[@]}" update
(cd "$work" && "${apt[@]}" download libamdhip64-dev rocm-device-libs-17)
for package in "$work"/*.deb; do dpkg -x "$package" "$work/unpacked"; done

rm -rf "${root:?}/include" "$root/lib" "$root/amdgcn" "$root/share"
mkdir -p "$root/lib/cmake/hip-lang" "$root/share/hip" "$root/amdgcn"
cp -a "$work/unpacked/usr/include" "$root/include"
cp -a "$(dirname "$(find "$work/unpacked" -name ockl.bc)")" "$root/amdgcn/bitcode"
printf 'HIP_VERSION_MAJOR=5\nHIP_VERSION_MINOR=7\nHIP_VERSION_PATCH=0\n' >"$root/share/hip/version"

# The runtime is Debian 12's HIP 5.2, because Debian 13's needs a newer libc. It lacks one function
# that Plait calls; without a GPU that call is never reached.
cat >"$work/missing.c" <<'EOC'
int hipLaunchHostFunc(void* stream, void* function, void* data) {
  (void)stream;
  (void)function;
  (void)data;
  return 801; /* not supported */
}
EOC
clang-19 -O1 -fPIC -c -o "$work/missing.o" "$work/missing.c"
llvm-ar-19 rc "$root/lib/libmissing.a" "$work/missing.o"
echo "INPUT(/usr/lib/x86_64-linux-gnu/libamdhip64.so.5 $root/lib/libmissing.a)" \
  >"$root/lib/libamdhip64.so"

cat >"$root/lib/cmake/hip-lang/hip-lang-config.cmake" <<'EOC'
get_filename_component(_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hip-lang::device)
  add_library(hip-lang::amdhip64 SHARED IMPORTED)
  set_target_properties(hip-lang::amdhip64 PROPERTIES
    IMPORTED_LOCATION "${_root}/lib/libamdhip64.so"
    INTERFACE_COMPILE_DEFINITIONS "__HIP_PLATFORM_AMD__=1"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_root}/include")
  add_library(hip-lang::host INTERFACE IMPORTED)
  set_target_properties(hip-lang::host PROPERTIES INTERFACE_LINK_LIBRARIES hip-lang::amdhip64)
  add_library(hip-lang::device INTERFACE IMPORTED)
  set_target_properties(hip-lang::device PROPERTIES INTERFACE_LINK_LIBRARIES hip-lang::host
    INTERFACE_LINK_OPTIONS "$<$<LINK_LANGUAGE:HIP>:--hip-link>")
endif()
set(_CMAKE_HIP_DEVICE_RUNTIME_TARGET "hip-lang::device")
EOC
touch "$root/complete"
echo "rocm-root: $root is ready; cmake --preset hip uses it."
