# What `cmake --install` puts where, in parts: runtime (the library), development (headers, CMake package, pkg-config file, documentation, examples) and tools
# (the programs). Nothing that is installed has an absolute path in it, so that a prefix can be moved; unless a folder, CMAKE_INSTALL_LIBDIR for
# instance, was given as one. tests/package/consumer checks that.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(CheckCXXSymbolExists)
include(CMakePushCheckState)

file(RELATIVE_PATH plait_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
if(NOT PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_INSTALL_RPATH)
  # The programs that the project around this one makes from here on find the library when they are installed, wherever that is. CMake
  # removes what other ways there are to say so, for instance a link option of plait::plait.
  set(CMAKE_INSTALL_RPATH $ORIGIN/${plait_bin_to_lib} PARENT_SCOPE)
endif()
if(PLAIT_INSTALL STREQUAL RUNTIME)
  if(NOT PLAIT_STATIC)
    install(TARGETS plait LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_SKIP)
  endif()
  return()
endif()

set(plait_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/plait)

# Which MPI this is.
cmake_push_check_state(RESET)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
check_cxx_symbol_exists(OPEN_MPI mpi.h PLAIT_MPI_IS_OPEN_MPI)
check_cxx_symbol_exists(I_MPI_VERSION mpi.h PLAIT_MPI_IS_INTEL_MPI)
check_cxx_symbol_exists(MPICH_VERSION mpi.h PLAIT_MPI_IS_MPICH)
cmake_pop_check_state()

# --- the library and its headers -------------------------------------------------------------------------------------------------------

install(TARGETS plait EXPORT plaitTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plait ${PROJECT_SOURCE_DIR}/interop/kokkos/include/plait DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")

# The pages refer to each other, and to the examples, by where they lie. Not in the part runtime: two versions of that may be installed.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.md" PATTERN "*.json" PATTERN "*.csv" PATTERN "*.svg")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development USE_SOURCE_PERMISSIONS)
install(FILES ${PROJECT_SOURCE_DIR}/tools/mpi-env.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/plait COMPONENT development)

# --- the programs ----------------------------------------------------------------------------------------------------------------------

if(PLAIT_BENCH)
  set_property(TARGET plait-bench plait-info PROPERTY INSTALL_RPATH $ORIGIN/${plait_bin_to_lib})
  install(TARGETS plait-bench plait-info RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()

# --- the CMake package -----------------------------------------------------------------------------------------------------------------

# Each file of cmake/package/components/ is a component of find_package(plait); plaitConfig.cmake finds them by their names.
file(GLOB plait_component_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/package/components/*.cmake)
foreach(file IN LISTS plait_component_files)
  cmake_path(GET file FILENAME name)
  install(FILES ${file} DESTINATION ${plait_package_folder} RENAME plait-${name} COMPONENT development)
endforeach()
# A module file is for one compiler, so who uses Fortran compiles the source: component `fortran`.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/interop/fortran DESTINATION ${plait_package_folder} COMPONENT development FILES_MATCHING
          PATTERN "*.[fF]90" PATTERN "*.inc")
install(EXPORT plaitTargets NAMESPACE plait:: DESTINATION ${plait_package_folder} COMPONENT development)
if(PLAIT_MPI_IS_OPEN_MPI)
  set(plait_mpi_name "Open MPI")
  set(plait_mpi_condition "defined(OPEN_MPI)")
else()
  set(plait_mpi_name "an MPI other than Open MPI")
  set(plait_mpi_condition "!defined(OPEN_MPI)")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/plaitConfig.cmake.in ${PROJECT_BINARY_DIR}/package/plaitConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/plaitConfigVersion.cmake COMPATIBILITY ${plait_compatibility})
install(FILES ${PROJECT_BINARY_DIR}/package/plaitConfig.cmake ${PROJECT_BINARY_DIR}/package/plaitConfigVersion.cmake
  DESTINATION ${plait_package_folder} COMPONENT development)

# --- for own kernels -------------------------------------------------------------------------------------------------------------------

# The library's own headers that kernels and descriptors of algorithms are written with, under the names that they have here: so that a
# folder of algorithms/ can as well be one of a program or a plug-in. They are of this version alone: plait_register sees to that.
set(plait_kernel_folder ${CMAKE_INSTALL_INCLUDEDIR}/plait/kernels)
file(GLOB_RECURSE plait_kernel_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} algorithms/*.hpp)
file(GLOB plait_device_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} backends/device/*.hpp)
list(APPEND plait_kernel_headers ${plait_device_headers})
foreach(name IN ITEMS backend host/host_kernels host/host_team host/host_words host/instantiate host/jitter)
  list(APPEND plait_kernel_headers backends/${name}.hpp)
endforeach()
if(PLAIT_CUDA OR PLAIT_HIP)
  list(APPEND plait_kernel_headers backends/gpu/gpu_kernels.hpp backends/gpu/gpu_words.hpp backends/gpu/instantiate.hpp)
endif()
if(PLAIT_CUDA OR (PLAIT_HIP AND PLAIT_HIP_PLATFORM STREQUAL nvidia))
  list(APPEND plait_kernel_headers backends/cuda/instantiate.cuh backends/cuda/ptx.hpp backends/cuda/target.hpp)
endif()
if(PLAIT_HIP)
  list(APPEND plait_kernel_headers backends/hip/api.hpp backends/hip/gcn.hpp backends/hip/instantiate.hpp backends/hip/target.hpp
       backends/hip/nvidia/cuda13.h)
endif()
list(APPEND plait_kernel_headers core/backoff.hpp core/unique_fd.hpp)
foreach(header IN LISTS plait_kernel_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${plait_kernel_folder}/${folder} COMPONENT development)
endforeach()

target_include_directories(plait_kernels INTERFACE $<INSTALL_INTERFACE:${plait_kernel_folder}>)
install(TARGETS plait_kernels EXPORT plaitKernelsTargets)
install(EXPORT plaitKernelsTargets NAMESPACE plait:: DESTINATION ${plait_package_folder} COMPONENT development)
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/built_for.cmake.in ${PROJECT_BINARY_DIR}/package/built_for.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/built_for.cmake cmake/PlaitKernels.cmake cmake/PlaitCuda.cmake cmake/PlaitHip.cmake
  cmake/kernel.in cmake/own_kernel.in DESTINATION ${plait_package_folder}/kernels COMPONENT development)

# --- pkg-config ------------------------------------------------------------------------------------------------------------------------

# plait/mpi.hpp and plait_mpi.h include mpi.h. MPI's own pkg-config file says where that is; each
# implementation names that file differently.
if(PLAIT_MPI_IS_OPEN_MPI)
  set(plait_mpi_module ompi-c)
elseif(PLAIT_MPI_IS_INTEL_MPI)
  set(plait_mpi_module impi)
elseif(PLAIT_MPI_IS_MPICH)
  set(plait_mpi_module mpich)
endif()
set(PLAIT_MPI_PKG_CONFIG "${plait_mpi_module}" CACHE STRING "MPI's pkg-config module, which plait.pc requires; empty: users compile with MPI's compiler")
# From where the file lies, so that the prefix can be moved; but a folder that was given with its whole path stays where it is.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(plait_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH plait_pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" plait_pc_prefix "\${pcfiledir}/${plait_pc_prefix}")
endif()
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE plait_pc_libdir)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE plait_pc_includedir)
set(plait_pc_libs -lplait)
if(PLAIT_STATIC)  # programs link what libplait.so would bring
  string(APPEND plait_pc_libs " -lstdc++ -lm -lpthread -ldl")
  if(PLAIT_CUDA)
    string(APPEND plait_pc_libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
  endif()
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/package/plait.pc.in ${PROJECT_BINARY_DIR}/package/plait.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/plait.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR} COMMENT "Removing what was installed from here last")
  include(cmake/PlaitPackage.cmake)
endif()
