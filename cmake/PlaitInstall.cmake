# What `cmake --install` puts where, in three parts: runtime (the library), development (headers, CMake package, pkg-config file) and tools
# (the programs). Nothing that is installed has an absolute path in it, so that a prefix can be moved. tests/consumer checks that.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(CheckCXXSymbolExists)
include(CMakePushCheckState)

set(plait_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plait)

# --- the library and its headers -------------------------------------------------------------------------------------------------------

install(TARGETS plait EXPORT plaitTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plait DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

# --- the programs ----------------------------------------------------------------------------------------------------------------------

if(PLAIT_BENCH)
  file(RELATIVE_PATH plait_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_property(TARGET plait-bench plait-info PROPERTY INSTALL_RPATH $ORIGIN/${plait_bin_to_lib})
  install(TARGETS plait-bench plait-info RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()

# --- the CMake package -----------------------------------------------------------------------------------------------------------------

# Each file of cmake/package/components/ is a component of find_package(plait); plaitConfig.cmake finds them by their names.
file(GLOB plait_component_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/package/components/*.cmake)
foreach(file IN LISTS plait_component_files)
  cmake_path(GET file FILENAME name)
  install(FILES ${file} DESTINATION ${plait_package_folder} RENAME plait-${name} COMPONENT development)
endforeach()
install(EXPORT plaitTargets NAMESPACE plait:: DESTINATION ${plait_package_folder} COMPONENT development)
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/plaitConfig.cmake.in ${PROJECT_BINARY_DIR}/package/plaitConfig.cmake @ONLY)
# Before 1.0, a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/plaitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/plaitConfig.cmake ${PROJECT_BINARY_DIR}/package/plaitConfigVersion.cmake
  DESTINATION ${plait_package_folder} COMPONENT development)

# --- pkg-config ------------------------------------------------------------------------------------------------------------------------

# The headers include mpi.h, and where that is, MPI's own pkg-config file says: under a name that each implementation chose for itself.
cmake_push_check_state(RESET)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
check_cxx_symbol_exists(OPEN_MPI mpi.h PLAIT_MPI_IS_OPEN_MPI)
check_cxx_symbol_exists(I_MPI_VERSION mpi.h PLAIT_MPI_IS_INTEL_MPI)
check_cxx_symbol_exists(MPICH_VERSION mpi.h PLAIT_MPI_IS_MPICH)
cmake_pop_check_state()
if(PLAIT_MPI_IS_OPEN_MPI)
  set(plait_mpi_module ompi-c)
elseif(PLAIT_MPI_IS_INTEL_MPI)
  set(plait_mpi_module impi)
elseif(PLAIT_MPI_IS_MPICH)
  set(plait_mpi_module mpich)
endif()
set(PLAIT_MPI_PKG_CONFIG "${plait_mpi_module}" CACHE STRING "MPI's pkg-config module, which plait.pc requires; empty: users compile with MPI's compiler")
file(RELATIVE_PATH plait_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" plait_pc_to_prefix "${plait_pc_to_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/plait.pc.in ${PROJECT_BINARY_DIR}/package/plait.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/plait.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

if(PROJECT_IS_TOP_LEVEL)
  include(cmake/PlaitPackage.cmake)
endif()
