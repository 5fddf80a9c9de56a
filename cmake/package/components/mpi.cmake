# Component mpi: MPI's C interface, which the public headers include. plait::plait can't be used without it, so plaitConfig.cmake asks for
# it whether the caller does or not.
if(NOT TARGET MPI::MPI_CXX)
  if(NOT DEFINED MPI_CXX_SKIP_MPICXX)
    set(MPI_CXX_SKIP_MPICXX ON)  # MPI's own C++ interface may be missing
  endif()
  find_dependency(MPI COMPONENTS CXX)
endif()
