# The target plait::kokkos in this build tree, for the tests and for projects that contain this one.
# Its headers are always installed, because the including program compiles them. An installation
# has the target as a component (cmake/package/components/kokkos.cmake).
set_property(CACHE PLAIT_KOKKOS PROPERTY STRINGS AUTO ON OFF)
if(PLAIT_KOKKOS STREQUAL AUTO AND PROJECT_IS_TOP_LEVEL)
  if(NOT TARGET Kokkos::kokkos)
    find_package(Kokkos QUIET)
  endif()
elseif(PLAIT_KOKKOS AND NOT PLAIT_KOKKOS STREQUAL AUTO AND NOT TARGET Kokkos::kokkos)
  find_package(Kokkos REQUIRED)
endif()
if(NOT PLAIT_KOKKOS OR NOT TARGET Kokkos::kokkos)
  return()
endif()
message(STATUS "Kokkos ${Kokkos_VERSION}")

add_library(plait_kokkos INTERFACE)
add_library(plait::kokkos ALIAS plait_kokkos)
target_include_directories(plait_kokkos INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/interop/kokkos/include>)
target_link_libraries(plait_kokkos INTERFACE plait::plait Kokkos::kokkos)
include(cmake/package/components/kokkos.cmake)  # corrects Debian's Kokkos
