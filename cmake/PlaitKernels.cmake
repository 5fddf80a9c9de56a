# Kernels of a program, a plug-in or the library itself, compiled for all targets that are built.
# The installed package has this file, too (component kernels), so the file finds its templates
# beside itself.

# plait_add_kernels(target HEADER...): compiles the kernels `plait::NAME::Kernel<T>` of each header
# for all of `plait::NAME::Types` and every target that is built, and links the result into
# `target`. The header's path gives the name: path/to/NAME/kernel.hpp, or NAME_kernel.hpp in any
# folder, for a variant that lives beside its parent. Each generated file has a few lines; the
# kernel's text is the same for all targets. A path is relative to this folder or, if there is no
# such file, to the folders in which `target` looks for headers. This folder becomes one of those,
# so the files of NAME/ include each other by such paths, as they do in algorithms/.
#
# For the same bits on every rank and target, no two operations of the text are fused into a
# multiply-add, and the host's kernels are compiled without -ffast-math even if the build has it.
function(plait_add_kernels target)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(header IN LISTS ARGN)
    if(header MATCHES "([^/]+)(/|_)kernel\\.hpp$")
      set(family ${CMAKE_MATCH_1})
    else()
      message(FATAL_ERROR "plait_add_kernels(${target}): ${header} is neither NAME/kernel.hpp "
                          "nor NAME_kernel.hpp, so the kernel has no name.")
    endif()
    plait_add_kernel_families(${target} ${header} ${family})
  endforeach()
endfunction()

# plait_add_plugin(target SOURCES... KERNELS path/to/NAME/kernel.hpp...): makes a shared object with
# algorithms, for PLAIT_PLUGINS.
function(plait_add_plugin target)
  cmake_parse_arguments(arg "" "" "SOURCES;KERNELS" ${ARGN})
  get_target_property(type plait::plait TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    message(FATAL_ERROR "plait_add_plugin(${target}): this Plait is a static library, and "
                        "plug-ins need libplait.so: build it with PLAIT_STATIC=OFF.")
  endif()
  add_library(${target} MODULE ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES PREFIX "")
  target_link_libraries(${target} PRIVATE plait::kernels)
  plait_add_kernels(${target} ${arg_KERNELS})
endfunction()

# plait_add_kernel_families(target header FAMILY...): compiles several families
# `plait::FAMILY::Kernel<T>` of one header as one file.
function(plait_add_kernel_families target header)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${header})
    set(header ${CMAKE_CURRENT_SOURCE_DIR}/${header})
  endif()
  plait_host_kernel_options(host_options)
  plait_kernel_source(${target} ${header} "${ARGN}" host.cpp backends/host/instantiate.hpp
                      "${host_options}")
  if(PLAIT_CUDA)
    plait_kernel_source(${target} ${header} "${ARGN}" cuda.cu backends/cuda/instantiate.cuh
                        --fmad=false)
  elseif(PLAIT_HIP AND PLAIT_HIP_PLATFORM STREQUAL nvidia)
    plait_kernel_source(${target} ${header} "${ARGN}" hip.cu backends/hip/instantiate.hpp
                        --fmad=false)
  elseif(PLAIT_HIP)
    plait_kernel_source(${target} ${header} "${ARGN}" hip backends/hip/instantiate.hpp
                        "${plait_amd_options}")
  endif()
  plait_gpu_kernels(${target})
endfunction()

# plait_kernel_sources(target FILE...): adds files that include plait/kernel.hpp. If GPUs are built
# for, it is their compiler that compiles them, for the host as well.
function(plait_kernel_sources target)
  set(language CXX)
  if(PLAIT_CUDA OR (PLAIT_HIP AND PLAIT_HIP_PLATFORM STREQUAL nvidia))
    set(language CUDA)
  elseif(PLAIT_HIP)
    set(language HIP)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE ${language})
  target_sources(${target} PRIVATE ${ARGN})
  plait_gpu_kernels(${target})
endfunction()

# Gives a target, once, what kernels for GPUs need.
function(plait_gpu_kernels target)
  get_target_property(ready ${target} PLAIT_COMPILES_KERNELS)
  if(ready)
    return()
  endif()
  set_target_properties(${target} PROPERTIES PLAIT_COMPILES_KERNELS ON)
  if(PLAIT_CUDA)
    plait_cuda_kernels(${target})
  elseif(PLAIT_HIP)
    plait_hip_kernels(${target})
  endif()
endfunction()

function(plait_host_kernel_options result)
  set(options -fno-fast-math -ffp-contract=off)
  if(NOT PLAIT_SANITIZE)
    # -O2 compiles in 60 % of the time, but twoshot of f32 takes 4 to 5 times as long then, from
    # 64 KB on (g++ 12, 2 ranks on 2 cores, 2026-11-24). With a sanitizer the build type decides,
    # because -O3 takes twice as long to compile there, too.
    list(APPEND options -O3 -DPLAIT_INLINE_KERNELS)
  endif()
  set(${result} "${options}" PARENT_SCOPE)
endfunction()

# Makes one generated file, named after the first family. `suffix` gives its language, `instantiate`
# the header with the target's PLAIT_INSTANTIATE.
function(plait_kernel_source target kernel_header families suffix instantiate options)
  list(GET families 0 file)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/kernels/${file}.${suffix})
  list(TRANSFORM families REPLACE "(.+)" "PLAIT_INSTANTIATE(\\1)" OUTPUT_VARIABLE instantiations)
  set(template kernel.in)
  if(NOT target MATCHES "^plait(_parts)?$")  # that pattern is the library itself
    set(template own_kernel.in)
    list(TRANSFORM families APPEND _added OUTPUT_VARIABLE added)
    list(JOIN added ", " added)
  endif()
  list(JOIN instantiations "\n" instantiations)
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${template} ${generated} @ONLY)
  target_sources(${target} PRIVATE ${generated})
  set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS "${options}")
  # What other builds and targets precompile has other options.
  if(NOT (target STREQUAL plait AND CMAKE_BUILD_TYPE STREQUAL Release))
    set_source_files_properties(${generated} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# Links the target's runtime library. An object library links it publicly, because a program does
# not take private libraries from the objects that it links.
function(plait_link_runtime target library)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL OBJECT_LIBRARY)
    target_link_libraries(${target} PUBLIC ${library})
  else()
    target_link_libraries(${target} PRIVATE ${library})
  endif()
endfunction()
