# Component fortran_mpi: plait::fortran_mpi, the module plait_mpi: all of the module plait, and
# communicators from MPI's. The project that asks for it compiles it with its own compiler.
include(${CMAKE_CURRENT_LIST_DIR}/plait-fortran.cmake)
if(DEFINED plait_FOUND AND NOT plait_FOUND)
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/plait-mpi.cmake)
if(DEFINED plait_FOUND AND NOT plait_FOUND)
  return()
endif()
if(NOT TARGET MPI::MPI_Fortran)  # for mpi_f08 and its like; plait::mpi brings MPI for C++ or C
  find_package(MPI QUIET OPTIONAL_COMPONENTS Fortran)
endif()
if(NOT TARGET plait_fortran_mpi)  # as in plait-fortran.cmake
  add_library(plait_fortran_mpi STATIC ${CMAKE_CURRENT_LIST_DIR}/fortran/plait_mpi.f90)
  set_target_properties(plait_fortran_mpi PROPERTIES POSITION_INDEPENDENT_CODE ON
    Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plait_fortran)
  target_include_directories(plait_fortran_mpi PUBLIC ${CMAKE_CURRENT_BINARY_DIR}/plait_fortran)
  target_link_libraries(plait_fortran_mpi PUBLIC plait_fortran plait::mpi
                        $<TARGET_NAME_IF_EXISTS:MPI::MPI_Fortran>)
endif()
if(NOT TARGET plait::fortran_mpi)
  add_library(plait::fortran_mpi INTERFACE IMPORTED)
  set_property(TARGET plait::fortran_mpi PROPERTY INTERFACE_LINK_LIBRARIES plait_fortran_mpi)
endif()
