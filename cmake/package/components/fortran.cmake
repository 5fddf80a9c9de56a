# Component fortran: plait::fortran, the module plait. The project that asks for it compiles it with
# its own compiler.
if(NOT CMAKE_Fortran_COMPILER_LOADED)
  set(plait_FOUND FALSE)
  set(plait_NOT_FOUND_MESSAGE "the project has not enabled Fortran")
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/plait-c.cmake)
# The whole project has one plait_fortran; imported targets, in contrast, exist once per folder.
if(NOT TARGET plait_fortran)
  set(plait_fortran_folder ${CMAKE_CURRENT_LIST_DIR}/fortran)
  file(GLOB plait_fortran_sources ${plait_fortran_folder}/*.[fF]90)
  list(FILTER plait_fortran_sources EXCLUDE REGEX "/plait_mpi.f90$")
  add_library(plait_fortran STATIC ${plait_fortran_sources})
  set_target_properties(plait_fortran PROPERTIES POSITION_INDEPENDENT_CODE ON
    Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/plait_fortran)
  target_include_directories(plait_fortran PUBLIC ${CMAKE_CURRENT_BINARY_DIR}/plait_fortran)
  target_link_libraries(plait_fortran PUBLIC plait::c)
  unset(plait_fortran_folder)
  unset(plait_fortran_sources)
endif()
if(NOT TARGET plait::fortran)
  # An imported target instead of an alias lets a library that links it be exported. A project that
  # imports that library then compiles the module itself.
  add_library(plait::fortran INTERFACE IMPORTED)
  set_property(TARGET plait::fortran PROPERTY INTERFACE_LINK_LIBRARIES plait_fortran)
endif()
