# Component kokkos: plait::kokkos, the header plait/kokkos.hpp with Kokkos. The header is the same
# for every Kokkos, so this Plait need not have been built with one.
if(NOT TARGET Kokkos::kokkos)
  find_dependency(Kokkos)
endif()

# The Kokkos of Debian 12 and 13 (libtrilinos-kokkos-dev, 3.4) names PREFIX/lib/include as the
# folder of its headers: it expects to lie in lib/cmake/Kokkos and takes the third folder above for
# its prefix. But it lies in lib/x86_64-linux-gnu/cmake/Kokkos, and its headers in
# PREFIX/include/trilinos. CMake refuses a target whose folder does not exist, so this corrects the
# target itself. A target that names the right folder stays as it is.
get_target_property(plait_kokkos_named Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
if(plait_kokkos_named AND NOT plait_kokkos_named MATCHES "\\$<")
  set(plait_kokkos_found FALSE)
  foreach(plait_kokkos_folder IN LISTS plait_kokkos_named)
    if(EXISTS ${plait_kokkos_folder}/Kokkos_Core.hpp)
      set(plait_kokkos_found TRUE)
    endif()
  endforeach()
  if(NOT plait_kokkos_found)
    unset(plait_kokkos_folder)
    find_path(plait_kokkos_folder Kokkos_Core.hpp HINTS ${Kokkos_INCLUDE_DIRS}
              PATH_SUFFIXES trilinos NO_CACHE)
    if(plait_kokkos_folder)
      cmake_path(ABSOLUTE_PATH plait_kokkos_folder NORMALIZE)
      set_property(TARGET Kokkos::kokkos PROPERTY INTERFACE_INCLUDE_DIRECTORIES
                   ${plait_kokkos_folder})
    endif()
  endif()
  unset(plait_kokkos_found)
  unset(plait_kokkos_folder)
endif()
unset(plait_kokkos_named)

if(NOT TARGET plait::kokkos)
  add_library(plait::kokkos INTERFACE IMPORTED)
  set_property(TARGET plait::kokkos PROPERTY INTERFACE_LINK_LIBRARIES plait::plait Kokkos::kokkos)
endif()
