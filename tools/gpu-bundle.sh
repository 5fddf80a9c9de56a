#!/usr/bin/env bash
# tools/gpu-bundle.sh [BUILD FOLDER [BUNDLE]]: makes gpu-bundle/, which runs on a GPU machine that
# has only a driver (no MPI, no network):
#   bin/ lib/      the programs and libraries of the build folder (build-cuda), stripped, and the
#                  tests' network plug-ins
#   skips.txt      the tests that may be skipped
#   deps.tar.xz    Open MPI and the headers and libraries to build Plait with, as one relocatable
#                  folder, from Debian 12 packages (amd64). It is kept between calls: delete it to
#                  make it anew.
# Copy the folder, tools/ and tests/ to that machine and start tools/gpu-run.sh there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build-cuda}
bundle=${2:-gpu-bundle}
deps=gpu-bundle/deps.tar.xz  # one for all bundles

# make_deps ARCHIVE: packs Open MPI with the libraries that it loads. The plug-ins for networks and
# OpenSHMEM are left out, because their libraries would be missing.
make_deps() {
  local work root library package name
  work=$(mktemp -d)
  chmod 755 "$work"  # apt's own user looks inside
  root=$work/root
  mkdir "$root" "$work/debs"
  (cd "$work/debs" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download openmpi-bin \
    openmpi-common libopenmpi3 libopenmpi-dev libpmix2 libmunge2 libevent-core-2.1-7 \
    libevent-pthreads-2.1-7 libhwloc15 libudev1 zlib1g libgtest-dev libgmock-dev libfmt9 \
    libfmt-dev libcli11-dev nlohmann-json3-dev)
  for package in "$work"/debs/*.deb; do dpkg -x "$package" "$root"; done
  library=$root/usr/lib/x86_64-linux-gnu

  # Debian's alternatives make these names when a package is installed.
  for name in mpirun mpiexec; do ln -sf orterun "$root/usr/bin/$name"; done
  for name in mpicc mpicxx mpic++ mpiCC; do ln -sf opal_wrapper "$root/usr/bin/$name"; done
  for name in mpic++ mpiCC; do
    ln -sf mpicxx-wrapper-data.txt "$root/usr/share/openmpi/$name-wrapper-data.txt"
  done

  (cd "$library/openmpi/lib/openmpi3" && rm -f mca_*_ofi.so mca_*_ucx.so mca_mtl_psm*.so \
    mca_btl_openib.so mca_btl_uct.so mca_reachable_netlink.so mca_atomic_*.so mca_memheap_*.so \
    mca_scoll_*.so mca_spml_*.so mca_sshmem_*.so)
  (cd "$library" && rm -rf fortran libmpi_mpifh* libmpi_usempi* libmpi_java* liboshmem*)
  (cd "$root/usr" && rm -rf share/man share/doc share/lintian share/bug src)
  # Libraries of the base system come last in the search path, for machines that lack them.
  mkdir "$root/fallback"
  find "$root" \( -name 'libudev.so.1*' -o -name 'libz.so.1*' \) ! -path "$root/fallback/*" \
    -exec mv -t "$root/fallback" {} +
  rm -rf "${root:?}/lib"
  find "$root/usr" -xtype l -delete

  cat >"$root/env.sh" <<'EOF'
# DEPS=FOLDER; . $DEPS/env.sh : programs are then run and built with the Open MPI in FOLDER.
deps_lib=$DEPS/usr/lib/x86_64-linux-gnu
export OPAL_PREFIX=$DEPS/usr OPAL_SYSCONFDIR=$DEPS/etc/openmpi
export PMIX_LIBDIR=$deps_lib/pmix2/lib PMIX_PKGLIBDIR=$deps_lib/pmix2/lib/pmix
export PMIX_DATADIR=$deps_lib/pmix2/share PMIX_PKGDATADIR=$deps_lib/pmix2/share/pmix
export PATH=$DEPS/usr/bin:$PATH
export LD_LIBRARY_PATH=$deps_lib:$deps_lib/pmix2/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:$DEPS/fallback
export CMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu
export CMAKE_PREFIX_PATH=$DEPS/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
EOF
  tar cJf "$1.part" -C "$root" .
  mv "$1.part" "$1"
  rm -rf "$work"
}

[ -d "$build/bin" ] || {
  printf 'gpu-bundle: there is no %s/bin; build the cuda preset first: ' "$build" >&2
  echo "cmake --preset cuda && cmake --build --preset cuda" >&2
  exit 1
}
rm -rf "${bundle:?}/bin" "${bundle:?}/lib"
mkdir -p "$bundle/bin" "$bundle/lib"
for file in "$build"/bin/*; do
  if [ -f "$file" ] && [ -x "$file" ]; then strip -o "$bundle/bin/${file##*/}" "$file"; fi
done
for folder in lib lib/whole; do  # the tests use the second
  mkdir -p "$bundle/$folder"
  for file in "$build/$folder"/lib{plait,plait-mpi,nccl}.so* \
    "$build/$folder"/libnccl-net-*.so; do
    [ -e "$file" ] || continue
    if [ -L "$file" ]; then
      cp -P "$file" "$bundle/$folder/"
    else
      strip --strip-unneeded -o "$bundle/$folder/${file##*/}" "$file"
    fi
  done
done
cp tests/skips.txt "$bundle/"  # for tools/check_skips.py
[ -f "$deps" ] || { mkdir -p gpu-bundle; make_deps "$deps"; }
du -sh "$bundle" "$bundle"/*
