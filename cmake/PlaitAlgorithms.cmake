# PLAIT_ALGORITHMS: the algorithms to build, by their folders. Sets plait_kernels, the headers of
# their kernels, and plait_left_out_rules, and removes the sources of all others from plait_sources.
file(GLOB_RECURSE plait_kernels CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     algorithms/*kernel.hpp)
set(plait_left_out_rules refused)  # LeftOut (communicator/selection/selection.hpp)
if(PLAIT_ALGORITHMS STREQUAL all)
  return()
endif()
set(plait_left_out_rules passed_over)

# Every communicator has a barrier, messages, one-sided calls and own kernels, and direct_push
# serves all other collectives but all_reduce, in any memory.
set(plait_always barrier direct_push one_sided own_kernels pairwise)
set(plait_folders ${plait_sources})
list(FILTER plait_folders INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/algorithms/")
list(FILTER plait_folders EXCLUDE REGEX "/algorithms/contract/")
list(TRANSFORM plait_folders REPLACE ".*/([^/]+)/[^/]+$" "\\1")
list(REMOVE_DUPLICATES plait_folders)
list(SORT plait_folders)
foreach(folder IN LISTS PLAIT_ALGORITHMS)
  if(NOT folder IN_LIST plait_folders)
    list(JOIN plait_folders ", " plait_known)
    message(FATAL_ERROR "PLAIT_ALGORITHMS: there is no algorithm '${folder}'. It is all, or some "
                        "of ${plait_known}.")
  endif()
endforeach()
if(PLAIT_TESTS)
  message(FATAL_ERROR "PLAIT_TESTS=ON needs PLAIT_ALGORITHMS=all, because tests name algorithms.")
endif()

set(plait_left_out ${plait_folders})
list(REMOVE_ITEM plait_left_out ${plait_always} ${PLAIT_ALGORITHMS})
foreach(folder IN LISTS plait_left_out)
  list(FILTER plait_sources EXCLUDE REGEX "/algorithms/.*/${folder}/[^/]+$")
  list(FILTER plait_kernels EXCLUDE REGEX "/${folder}/[^/]+$")
endforeach()
