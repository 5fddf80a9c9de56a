# The HIP backend.
# - PLAIT_HIP_PLATFORM=amd: ROCm's clang compiles the kernels.
# - PLAIT_HIP_PLATFORM=nvidia: nvcc compiles the same host code with HIP's headers for CUDA. This is
#   a test configuration for machines that have only NVIDIA GPUs.
#
# ROCm is PLAIT_ROCM_ROOT. If that is not set, it is searched in the environment's ROCM_PATH, in
# /opt/rocm and in build-rocm (tools/rocm-root.sh); PLAIT_ROCM_SEARCH replaces these three folders.
# Its clang is CMAKE_HIP_COMPILER, the environment's HIPCXX, or the one found in ROCm.
set(PLAIT_HIP_PLATFORM amd CACHE STRING "GPUs that the HIP backend is for: amd or nvidia")
set_property(CACHE PLAIT_HIP_PLATFORM PROPERTY STRINGS amd nvidia)
set(plait_hip_oldest 5.7)
# Options for kernels on AMD GPUs. The last one keeps the end of a kernel's Args and the beginning
# of its Watch from being loaded together, as a tuple of eight registers. For such a tuple clang 19
# reserves a stack slot that nothing uses when registers are scarce, but a kernel must have no
# stack (docs/amd.md).
set(plait_amd_options -O3 -fno-fast-math -ffp-contract=off
    -mllvm -amdgpu-ir-lower-kernel-arguments=0)

if(PLAIT_CUDA)
  message(FATAL_ERROR
          "PLAIT_CUDA=ON and PLAIT_HIP=ON: a library has one of the two; make two build folders.")
endif()
if(NOT PLAIT_HIP_PLATFORM MATCHES "^(amd|nvidia)$")
  message(FATAL_ERROR "PLAIT_HIP_PLATFORM=${PLAIT_HIP_PLATFORM}: it is amd or nvidia.")
endif()

# Both platforms need ROCm's headers, of any version from plait_hip_oldest on.
if(NOT DEFINED PLAIT_ROCM_SEARCH)
  set(PLAIT_ROCM_SEARCH $ENV{ROCM_PATH} /opt/rocm ${PROJECT_SOURCE_DIR}/build-rocm)
endif()
find_path(PLAIT_ROCM_ROOT include/hip/hip_version.h NO_DEFAULT_PATH
  HINTS ${CMAKE_HIP_COMPILER_ROCM_ROOT} ${PLAIT_ROCM_SEARCH} DOC "ROCm's root, with include/hip")
if(NOT PLAIT_ROCM_ROOT)
  message(FATAL_ERROR "PLAIT_HIP=ON, but no ROCm was found: install ROCm 6 or newer, "
                      "set ROCM_PATH, or make a root to compile with by tools/rocm-root.sh.")
endif()
file(STRINGS ${PLAIT_ROCM_ROOT}/include/hip/hip_version.h plait_hip_version
     REGEX "define HIP_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2"
       plait_hip_version "${plait_hip_version}")
if(plait_hip_version VERSION_LESS plait_hip_oldest)
  message(FATAL_ERROR "PLAIT_HIP=ON needs HIP ${plait_hip_oldest} or newer; "
                      "${PLAIT_ROCM_ROOT} is HIP ${plait_hip_version}.")
endif()

if(PLAIT_HIP_PLATFORM STREQUAL amd)
  if(NOT DEFINED CMAKE_HIP_ARCHITECTURES)
    set(CMAKE_HIP_ARCHITECTURES "gfx90a;gfx942" CACHE STRING "MI200 and MI300 (A, X)")
  endif()
  if(NOT CMAKE_HIP_COMPILER AND "$ENV{HIPCXX}" STREQUAL "")
    find_program(CMAKE_HIP_COMPILER NAMES clang++
                 PATHS ${PLAIT_ROCM_ROOT}/lib/llvm/bin ${PLAIT_ROCM_ROOT}/llvm/bin NO_DEFAULT_PATH)
    if(NOT CMAKE_HIP_COMPILER)
      find_program(CMAKE_HIP_COMPILER NAMES clang++-19 clang++-18 clang++-17)
    endif()
    if(NOT CMAKE_HIP_COMPILER)
      message(FATAL_ERROR "PLAIT_HIP=ON, but neither ${PLAIT_ROCM_ROOT} nor PATH has a clang++ "
                          "for HIP: install ROCm's, or set CMAKE_HIP_COMPILER.")
    endif()
  endif()
  set(CMAKE_HIP_COMPILER_ROCM_ROOT ${PLAIT_ROCM_ROOT})
  set(CMAKE_HIP_FLAGS_INIT "--rocm-path=${PLAIT_ROCM_ROOT}")
  set(ENV{ROCM_PATH} ${PLAIT_ROCM_ROOT})  # CMake runs the compiler also without these flags
  enable_language(HIP)
  if(CMAKE_HIP_COMPILER_VERSION VERSION_LESS 16)
    message(FATAL_ERROR "PLAIT_HIP=ON needs clang 16 or newer; "
                        "${CMAKE_HIP_COMPILER} is ${CMAKE_HIP_COMPILER_VERSION}.")
  endif()
  set(CMAKE_HIP_STANDARD 20)
  set(CMAKE_HIP_STANDARD_REQUIRED ON)
  set(CMAKE_HIP_EXTENSIONS OFF)
else()
  include(${CMAKE_CURRENT_LIST_DIR}/PlaitCuda.cmake)
endif()
message(STATUS "HIP ${plait_hip_version} in ${PLAIT_ROCM_ROOT}, for ${PLAIT_HIP_PLATFORM}")

# Gives a target what its kernels and its calls of HIP need.
function(plait_hip_kernels target)
  target_include_directories(${target} SYSTEM PRIVATE ${PLAIT_ROCM_ROOT}/include)
  if(PLAIT_HIP_PLATFORM STREQUAL amd)
    target_compile_definitions(${target} PRIVATE __HIP_PLATFORM_AMD__=1)
    plait_link_runtime(${target} hip-lang::host)
  else()
    plait_cuda_kernels(${target})
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(${target} PRIVATE __HIP_PLATFORM_NVIDIA__=1)
  endif()
endfunction()
