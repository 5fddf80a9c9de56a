# Component mpi: MPI's C interface for the languages that the project has enabled. The public headers for C++ include it, so
# plaitConfig.cmake asks for it wherever there is C++; those for C need it for plait_mpi.h alone.
if(CMAKE_CXX_COMPILER_LOADED AND NOT TARGET MPI::MPI_CXX)
  if(NOT DEFINED MPI_CXX_SKIP_MPICXX)
    set(MPI_CXX_SKIP_MPICXX ON)  # MPI's own C++ interface may be missing
  endif()
  find_dependency(MPI COMPONENTS CXX)
endif()
if(CMAKE_C_COMPILER_LOADED AND NOT TARGET MPI::MPI_C AND "mpi" IN_LIST plait_FIND_COMPONENTS)
  find_dependency(MPI COMPONENTS C)
endif()
