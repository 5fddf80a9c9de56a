# CPack's Debian packages: `cpack -G DEB` in the build folder makes one for each part of the
# installation. Those whose names have no `mpi` in them need no MPI, except for plait-tools. They
# install into /usr, so configure with -DCMAKE_INSTALL_PREFIX=/usr: then the library goes where
# Debian keeps libraries of the machine's architecture.
set(plait_runtime_package libplait${plait_interface})
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME plait)
set(CPACK_PACKAGE_VENDOR Plait)
if(NOT CPACK_PACKAGE_CONTACT)
  # Set it to your own address in packages that you give to others.
  set(CPACK_PACKAGE_CONTACT
      "Plait maintainers <maintainers@users.noreply.a-seed-684e40f0.example>")
endif()
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package/copyright.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package/installed_size.cmake)
set(CPACK_COMPONENTS_ALL runtime development)
if(plait_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi_runtime mpi_development)
endif()
if(PLAIT_BENCH)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # looks up the installed packages that own the libraries
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
# dpkg-shlibdeps does not know the library's own package before that is made.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)

set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${PROJECT_DESCRIPTION}: the library")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${plait_runtime_package})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)

set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${PROJECT_DESCRIPTION}: \
headers, CMake package, pkg-config file, documentation and examples")
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libplait-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)  # the package has no programs

set(CPACK_COMPONENT_MPI_RUNTIME_DESCRIPTION "${PROJECT_DESCRIPTION}: \
the library for communicators over MPI")
set(CPACK_COMPONENT_MPI_RUNTIME_DEPENDS runtime)
set(CPACK_DEBIAN_MPI_RUNTIME_PACKAGE_NAME libplait-mpi${plait_interface})
set(CPACK_DEBIAN_MPI_RUNTIME_PACKAGE_SECTION libs)

set(CPACK_COMPONENT_MPI_DEVELOPMENT_DESCRIPTION "${PROJECT_DESCRIPTION}: \
headers, CMake component and pkg-config file for communicators over MPI")
set(CPACK_COMPONENT_MPI_DEVELOPMENT_DEPENDS mpi_runtime development)
set(CPACK_DEBIAN_MPI_DEVELOPMENT_PACKAGE_NAME libplait-mpi-dev)
set(CPACK_DEBIAN_MPI_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_MPI_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
if(PLAIT_MPI_IS_OPEN_MPI)
  set(CPACK_DEBIAN_MPI_DEVELOPMENT_PACKAGE_DEPENDS libopenmpi-dev)
else()
  set(CPACK_DEBIAN_MPI_DEVELOPMENT_PACKAGE_DEPENDS mpi-default-dev)
endif()

set(CPACK_COMPONENT_TOOLS_DESCRIPTION
    "${PROJECT_DESCRIPTION}: plait-bench, plait-info and plait-tune")
set(CPACK_COMPONENT_TOOLS_DEPENDS runtime)
if(plait_mpi)
  list(APPEND CPACK_COMPONENT_TOOLS_DEPENDS mpi_runtime)
endif()
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME plait-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
if(plait_mpi)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS mpi-default-bin)
endif()

if(TARGET plait_nccl)
  list(APPEND CPACK_COMPONENTS_ALL nccl)
  set(CPACK_COMPONENT_NCCL_DESCRIPTION
      "${PROJECT_DESCRIPTION}: a library that answers NCCL's calls")
  set(CPACK_COMPONENT_NCCL_DEPENDS runtime)
  set(CPACK_DEBIAN_NCCL_PACKAGE_NAME libplait-nccl)
  set(CPACK_DEBIAN_NCCL_PACKAGE_SECTION libs)
endif()
include(CPack)
