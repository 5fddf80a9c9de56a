# plait_add_kernels(target path/to/NAME/kernel.hpp ...): compiles `plait::NAME::Kernel<T>` for all of `plait::NAME::Types` and every target
# that is built, and links the result into `target`. The generated files hold two lines each; the kernel's text is the same for all.
#
# All are compiled without fused multiply-adds where the text has two operations: the same bits on every rank and target.
function(plait_add_kernels target)
  foreach(header IN LISTS ARGN)
    cmake_path(GET header PARENT_PATH folder)
    cmake_path(GET folder FILENAME family)
    plait_kernel_source(${target} ${header} ${family} host.cpp backends/host/instantiate.hpp "-O3;-ffp-contract=off")
    if(PLAIT_CUDA)
      plait_kernel_source(${target} ${header} ${family} cuda.cu backends/cuda/instantiate.cuh --fmad=false)
    elseif(PLAIT_HIP AND PLAIT_HIP_PLATFORM STREQUAL nvidia)
      plait_kernel_source(${target} ${header} ${family} hip.cu backends/hip/instantiate.hpp --fmad=false)
    elseif(PLAIT_HIP)
      plait_kernel_source(${target} ${header} ${family} hip backends/hip/instantiate.hpp "${plait_amd_options}")
    endif()
  endforeach()
  if(PLAIT_CUDA)
    plait_cuda_kernels(${target})
  elseif(PLAIT_HIP)
    plait_hip_kernels(${target})
  endif()
endfunction()

# One generated file: SUFFIX names its language, INSTANTIATE the header with the target's PLAIT_INSTANTIATE.
function(plait_kernel_source target kernel_header kernel_family suffix instantiate options)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/kernels/${kernel_family}.${suffix})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/kernel.in ${generated} @ONLY)
  target_sources(${target} PRIVATE ${generated})
  set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()

# A program does not take private libraries from the objects that it links.
function(plait_link_runtime target library)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL OBJECT_LIBRARY)
    target_link_libraries(${target} PUBLIC ${library})
  else()
    target_link_libraries(${target} PRIVATE ${library})
  endif()
endfunction()
