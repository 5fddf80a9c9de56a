# The CUDA compiler: nvcc for the kernels, and the static runtime. Nothing links the driver.
include(CheckLanguage)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # Machine code for A100 and H100/H200, and PTX for newer GPUs.
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "PLAIT_CUDA=ON, but no CUDA compiler was found: "
                      "put nvcc (12.5 or newer) on PATH or set CMAKE_CUDA_COMPILER.")
endif()
enable_language(CUDA)
# nvcc has known C++20 since 12.0, CMake only since 3.26.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.5)
  message(FATAL_ERROR "PLAIT_CUDA=ON needs CUDA 12.5 or newer; "
                      "${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}.")
endif()
find_package(CUDAToolkit REQUIRED)

# Gives a target the options and the runtime that its kernels need.
function(plait_cuda_kernels target)
  # The best compression needs a driver of CUDA 12.4 or newer, and CUDA 13 needs a newer one.
  set(compress -Xfatbin=-compress-all)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    set(compress --compress-mode=size)
  endif()
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;${compress}>)
  plait_link_runtime(${target} CUDA::cudart_static)
endfunction()
