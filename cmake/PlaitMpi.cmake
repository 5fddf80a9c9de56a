# libplait-mpi: communicators from MPI's. The only part of Plait that links MPI. It uses names that
# libplait exports for it alone, so both come from one build.
file(GLOB plait_mpi_sources CONFIGURE_DEPENDS bootstrap/mpi/*.cpp transport/mpi/*.cpp
     interop/mpi/*.cpp)
if(PLAIT_STATIC)
  add_library(plait_mpi STATIC ${plait_mpi_sources})
else()
  add_library(plait_mpi SHARED ${plait_mpi_sources})
endif()
add_library(plait::mpi ALIAS plait_mpi)
plait_library(plait_mpi)
set_target_properties(plait_mpi PROPERTIES OUTPUT_NAME plait-mpi EXPORT_NAME mpi
                      BUILD_RPATH $ORIGIN INSTALL_RPATH $ORIGIN)
target_link_libraries(plait_mpi PUBLIC plait MPI::MPI_CXX)
if(PLAIT_STATIC)
  # A program that only makes world communicators names nothing of the archive, so a linker would
  # drop it.
  target_link_options(plait_mpi INTERFACE LINKER:--undefined=plait_comm_create)
else()
  set(plait_mpi_exports ${PROJECT_SOURCE_DIR}/cmake/exports-mpi.map)
  target_link_options(plait_mpi PRIVATE LINKER:--version-script,${plait_mpi_exports})
  set_property(TARGET plait_mpi APPEND PROPERTY LINK_DEPENDS ${plait_mpi_exports})
endif()
if(NOT PROJECT_IS_TOP_LEVEL AND (NOT PLAIT_INSTALL OR PLAIT_INSTALL STREQUAL RUNTIME))
  # As a part of another project it is built, and installed, only if a program there links it.
  set_target_properties(plait_mpi PROPERTIES EXCLUDE_FROM_ALL ON)
endif()

# libplait-pmpi.so: serves the collective calls of MPI programs as they are (docs/mpi.md).
if(NOT PLAIT_STATIC)
  file(GLOB plait_pmpi_sources CONFIGURE_DEPENDS interop/pmpi/*.cpp)
  add_library(plait_pmpi SHARED ${plait_pmpi_sources})
  plait_library(plait_pmpi)
  set_target_properties(plait_pmpi PROPERTIES OUTPUT_NAME plait-pmpi BUILD_RPATH $ORIGIN
                        INSTALL_RPATH $ORIGIN)
  target_link_libraries(plait_pmpi PRIVATE plait_mpi plait_fmt)
  set(plait_pmpi_exports ${PROJECT_SOURCE_DIR}/cmake/exports-pmpi.map)
  target_link_options(plait_pmpi PRIVATE LINKER:--exclude-libs,ALL
                      LINKER:--version-script,${plait_pmpi_exports})
  set_property(TARGET plait_pmpi APPEND PROPERTY LINK_DEPENDS ${plait_pmpi_exports})
  if(NOT PROJECT_IS_TOP_LEVEL)
    set_target_properties(plait_pmpi PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endif()
