# Component mpi: MPI's C interface for the languages that the project has enabled. plait/mpi.hpp
# needs it in C++, where plait::plait links it, so plaitConfig.cmake asks for it wherever there is
# C++; in C only plait_mpi.h needs it.
if(CMAKE_CXX_COMPILER_LOADED AND NOT TARGET MPI::MPI_CXX)
  if(NOT DEFINED MPI_CXX_SKIP_MPICXX)
    set(MPI_CXX_SKIP_MPICXX ON)  # MPI's own C++ interface may be missing
  endif()
  find_dependency(MPI COMPONENTS CXX)
endif()
if(CMAKE_C_COMPILER_LOADED AND NOT TARGET MPI::MPI_C AND "mpi" IN_LIST plait_FIND_COMPONENTS)
  find_dependency(MPI COMPONENTS C)
endif()

# Open MPI's handles are pointers; those of other MPIs are numbers. A program with one kind crashes
# in a library with the other. This warns if mpi.h turns out to be of the other kind, and stays
# silent if mpi.h can't be compiled.
foreach(plait_language IN ITEMS CXX C)
  if(CMAKE_${plait_language}_COMPILER_LOADED AND TARGET MPI::MPI_${plait_language})
    include(CheckSourceCompiles)
    include(CMakePushCheckState)
    cmake_push_check_state(RESET)
    set(CMAKE_REQUIRED_QUIET TRUE)
    set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_${plait_language})
    check_source_compiles(${plait_language} "#include <mpi.h>
#if ${plait_mpi_condition}
#error of the same kind
#endif
int main(void) { return 0; }" plait_mpi_is_another)
    cmake_pop_check_state()
    if(plait_mpi_is_another)
      message(WARNING "Plait was built with ${plait_mpi_name}, which this project's MPI is not: "
                      "programs would crash. Build both with one MPI.")
    endif()
    break()
  endif()
endforeach()
unset(plait_language)
