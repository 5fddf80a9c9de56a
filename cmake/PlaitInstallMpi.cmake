# The installation of libplait-mpi in two parts, mpi_runtime and mpi_development. They need the
# parts runtime and development of the same build. PlaitInstall.cmake includes this file at its end.

install(TARGETS plait_mpi EXPORT plaitMpiTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi_runtime
          NAMELINK_COMPONENT mpi_development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi_development)
if(TARGET plait_pmpi AND PROJECT_IS_TOP_LEVEL)
  install(TARGETS plait_pmpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi_runtime
                                     NAMELINK_COMPONENT mpi_development)
endif()
install(FILES include/plait/mpi.hpp include/plait/plait_mpi.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plait COMPONENT mpi_development)

# Which MPI this is.
cmake_push_check_state(RESET)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
check_cxx_symbol_exists(OPEN_MPI mpi.h PLAIT_MPI_IS_OPEN_MPI)
check_cxx_symbol_exists(I_MPI_VERSION mpi.h PLAIT_MPI_IS_INTEL_MPI)
check_cxx_symbol_exists(MPICH_VERSION mpi.h PLAIT_MPI_IS_MPICH)
cmake_pop_check_state()

# --- the CMake package ----------------------------------------------------------------------------

if(PLAIT_MPI_IS_OPEN_MPI)
  set(plait_mpi_name "Open MPI")
  set(plait_mpi_condition "defined(OPEN_MPI)")
else()
  set(plait_mpi_name "an MPI other than Open MPI")
  set(plait_mpi_condition "!defined(OPEN_MPI)")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/mpi.cmake.in
               ${PROJECT_BINARY_DIR}/package/plait-mpi.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/plait-mpi.cmake
  DESTINATION ${plait_package_folder} COMPONENT mpi_development)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/package/fortran_mpi.cmake
  DESTINATION ${plait_package_folder} RENAME plait-fortran_mpi.cmake COMPONENT mpi_development)
install(FILES ${PROJECT_SOURCE_DIR}/interop/fortran/plait_mpi.f90
  DESTINATION ${plait_package_folder}/fortran COMPONENT mpi_development)
install(EXPORT plaitMpiTargets NAMESPACE plait:: DESTINATION ${plait_package_folder}
  COMPONENT mpi_development)

# --- pkg-config -----------------------------------------------------------------------------------

# plait/mpi.hpp and plait_mpi.h include mpi.h. MPI's own pkg-config file says where that is; each
# implementation names that file differently.
if(PLAIT_MPI_IS_OPEN_MPI)
  set(plait_mpi_module ompi-c)
elseif(PLAIT_MPI_IS_INTEL_MPI)
  set(plait_mpi_module impi)
elseif(PLAIT_MPI_IS_MPICH)
  set(plait_mpi_module mpich)
endif()
set(PLAIT_MPI_PKG_CONFIG "${plait_mpi_module}" CACHE STRING
    "MPI's pkg-config module, which plait-mpi.pc requires; empty: users take MPI's compiler")
set(plait_mpi_pc_libs -lplait-mpi)
if(PLAIT_STATIC)  # PlaitMpi.cmake says why
  string(PREPEND plait_mpi_pc_libs "-Wl,--undefined=plait_comm_create ")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/plait-mpi.pc.in
               ${PROJECT_BINARY_DIR}/package/plait-mpi.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/plait-mpi.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT mpi_development)
