# The installation, in parts: runtime (the library), development (headers, CMake package, pkg-config
# file, documentation, examples), tools (the programs), and mpi_runtime and mpi_development, which
# hold the same of libplait-mpi. No installed file contains an absolute path, so a prefix can be
# moved, unless a folder such as CMAKE_INSTALL_LIBDIR was given as an absolute path.
# tests/package/consumer checks that.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(CheckCXXSymbolExists)
include(CMakePushCheckState)

file(RELATIVE_PATH plait_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
if(NOT PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_INSTALL_RPATH)
  # Programs that the surrounding project defines after this point find the library once they are
  # installed, wherever that is. CMake removes other hints when it installs, for example a link
  # option of plait::plait.
  set(CMAKE_INSTALL_RPATH $ORIGIN/${plait_bin_to_lib} PARENT_SCOPE)
endif()
if(PLAIT_INSTALL STREQUAL RUNTIME)
  if(NOT PLAIT_STATIC)
    install(TARGETS plait
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_SKIP)
    if(plait_mpi)  # OPTIONAL: it is there if a program links it
      install(TARGETS plait_mpi OPTIONAL
              LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi_runtime NAMELINK_SKIP)
    endif()
  endif()
  return()
endif()

set(plait_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plait)

# plait_say_left_out(component target...): `cmake --install` builds nothing, and leaves out those of
# these targets that the folder has not built, such as after `./run demo`.
function(plait_say_left_out component)
  foreach(target IN LISTS ARGN)
    install(CODE "if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
  message(STATUS \"Left out, because it is not built: $<TARGET_FILE_NAME:${target}>\")
endif()" COMPONENT ${component})
  endforeach()
endfunction()

# --- the library and its headers ------------------------------------------------------------------

install(TARGETS plait EXPORT plaitTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plait
  ${PROJECT_SOURCE_DIR}/interop/kernels/include/plait
  ${PROJECT_SOURCE_DIR}/interop/kokkos/include/plait
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h"
  PATTERN mpi.hpp EXCLUDE PATTERN plait_mpi.h EXCLUDE)

# The pages link each other and the examples by relative paths, so all keep their places. They are
# not in the part runtime, because two versions of that may be installed.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT development
  FILES_MATCHING PATTERN "*.md" PATTERN "*.json" PATTERN "*.csv" PATTERN "*.svg"
  PATTERN "*.webp")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT development USE_SOURCE_PERMISSIONS)
install(FILES ${PROJECT_SOURCE_DIR}/tools/mpi-env.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/plait
  COMPONENT development)

# --- the programs ---------------------------------------------------------------------------------

if(PLAIT_BENCH)
  set_property(TARGET plait-bench plait-info plait-tune
               PROPERTY INSTALL_RPATH $ORIGIN/${plait_bin_to_lib})
  install(TARGETS plait-bench plait-info plait-tune OPTIONAL
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  plait_say_left_out(tools plait-bench plait-info plait-tune)
endif()

if(TARGET plait_nccl)  # in a folder that no program searches by itself, so that it hides no NCCL
  install(TARGETS plait_nccl OPTIONAL LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/plait
          COMPONENT nccl NAMELINK_SKIP)
  plait_say_left_out(nccl plait_nccl)
endif()

# --- the CMake package ----------------------------------------------------------------------------

# Each file of cmake/package/components/ is a component of find_package(plait); plaitConfig.cmake
# finds them by their names.
file(GLOB plait_component_files CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/cmake/package/components/*.cmake)
foreach(file IN LISTS plait_component_files)
  cmake_path(GET file FILENAME name)
  install(FILES ${file} DESTINATION ${plait_package_folder} RENAME plait-${name}
          COMPONENT development)
endforeach()
# A module file fits only one compiler, so each project compiles the Fortran source itself:
# component `fortran`.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/interop/fortran/ ${plait_fortran_generated}/
  DESTINATION ${plait_package_folder}/fortran
  COMPONENT development FILES_MATCHING PATTERN "*.[fF]90"
  PATTERN plait_mpi.f90 EXCLUDE)
install(EXPORT plaitTargets NAMESPACE plait:: DESTINATION ${plait_package_folder}
  COMPONENT development)
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/plaitConfig.cmake.in
               ${PROJECT_BINARY_DIR}/package/plaitConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/plaitConfigVersion.cmake
                                 COMPATIBILITY ${plait_compatibility})
install(FILES ${PROJECT_BINARY_DIR}/package/plaitConfig.cmake
  ${PROJECT_BINARY_DIR}/package/plaitConfigVersion.cmake
  DESTINATION ${plait_package_folder} COMPONENT development)

# --- for own kernels ------------------------------------------------------------------------------

# The library's own headers for kernels and descriptors of algorithms. They keep their paths, so a
# folder of algorithms/ can also be a folder of a program or a plug-in. They fit only this version;
# plait_register checks that.
set(plait_kernel_folder ${CMAKE_INSTALL_INCLUDEDIR}/plait/kernels)
file(GLOB_RECURSE plait_kernel_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     algorithms/*.hpp)
# Only the library loads plug-ins, so it does not export what this header declares.
list(REMOVE_ITEM plait_kernel_headers algorithms/contract/plugins.hpp)
file(GLOB plait_device_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     backends/device/*.hpp)
list(APPEND plait_kernel_headers ${plait_device_headers} backends/all/targets.hpp
     backends/backend.hpp)
foreach(name IN ITEMS host_kernels host_team host_words instantiate jitter)
  list(APPEND plait_kernel_headers backends/host/${name}.hpp)
endforeach()
if(PLAIT_CUDA OR PLAIT_HIP)
  foreach(name IN ITEMS gpu_kernels gpu_words instantiate)
    list(APPEND plait_kernel_headers backends/gpu/${name}.hpp)
  endforeach()
endif()
if(PLAIT_CUDA OR (PLAIT_HIP AND PLAIT_HIP_PLATFORM STREQUAL nvidia))
  list(APPEND plait_kernel_headers backends/cuda/instantiate.cuh backends/cuda/ptx.hpp
       backends/cuda/target.hpp)
endif()
if(PLAIT_HIP)
  list(APPEND plait_kernel_headers backends/hip/api.hpp backends/hip/gcn.hpp
       backends/hip/instantiate.hpp backends/hip/target.hpp backends/hip/nvidia/cuda13.h)
endif()
list(APPEND plait_kernel_headers core/backoff.hpp core/dma_buf.hpp core/float_environment.hpp
     core/unique_fd.hpp)
foreach(header IN LISTS plait_kernel_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${plait_kernel_folder}/${folder} COMPONENT development)
endforeach()

target_include_directories(plait_kernels INTERFACE $<INSTALL_INTERFACE:${plait_kernel_folder}>)
install(TARGETS plait_kernels EXPORT plaitKernelsTargets)
install(EXPORT plaitKernelsTargets NAMESPACE plait:: DESTINATION ${plait_package_folder}
  COMPONENT development)
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/built_for.cmake.in
               ${PROJECT_BINARY_DIR}/package/built_for.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/built_for.cmake cmake/PlaitKernels.cmake
  cmake/PlaitCuda.cmake cmake/PlaitHip.cmake cmake/kernel.in cmake/own_kernel.in
  DESTINATION ${plait_package_folder}/kernels COMPONENT development)

# --- pkg-config -----------------------------------------------------------------------------------

# Paths are relative to the file, so that the prefix can be moved. A folder that was given as an
# absolute path stays where it is.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(plait_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH plait_pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" plait_pc_prefix "\${pcfiledir}/${plait_pc_prefix}")
endif()
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}"
           OUTPUT_VARIABLE plait_pc_libdir)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}"
           OUTPUT_VARIABLE plait_pc_includedir)
set(plait_pc_libs -lplait)
if(PLAIT_STATIC)  # programs link the libraries that libplait.so would bring
  string(APPEND plait_pc_libs " -lstdc++ -lm -lpthread -ldl")
  if(PLAIT_CUDA)
    string(APPEND plait_pc_libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
  endif()
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/plait.pc.in
               ${PROJECT_BINARY_DIR}/package/plait.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/plait.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

if(plait_mpi)
  include(cmake/PlaitInstallMpi.cmake)
endif()
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall
    COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR} COMMENT "Removing the files of the last installation")
  include(cmake/PlaitPackage.cmake)
endif()
