# Component kernels: plait::kernels, the headers for kernels; and plait_add_kernels and
# plait_add_plugin, which compile kernels for the targets that this Plait has
# (kernels/PlaitKernels.cmake).
include(${CMAKE_CURRENT_LIST_DIR}/kernels/built_for.cmake)
if(DEFINED plait_FOUND AND NOT plait_FOUND)
  return()
endif()
if(PLAIT_CUDA AND NOT CMAKE_CUDA_COMPILER)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(plait_FOUND FALSE)
    string(CONCAT plait_NOT_FOUND_MESSAGE "there is no CUDA compiler: put nvcc on PATH, "
           "or set PLAIT_CUDA=OFF for kernels of the host target alone")
    return()
  endif()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/plaitKernelsTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/kernels/PlaitKernels.cmake)
if(PLAIT_HIP)
  include(${CMAKE_CURRENT_LIST_DIR}/kernels/PlaitHip.cmake)
elseif(PLAIT_CUDA)
  include(${CMAKE_CURRENT_LIST_DIR}/kernels/PlaitCuda.cmake)
endif()
