! Plait's Fortran interface: use plait. docs/c.md is the guide, and the comments of plait.h say what each procedure does; they have
! the same names.
!
! Every procedure takes an optional `status` at its end, PLAIT_SUCCESS or an error; plait_last_error() is its sentence. Without
! `status` an error writes the sentence and stops the program. `stream` is a native stream; none is the default stream.
module plait
  use plait_base
  use plait_real32
  use plait_real64
  use plait_int32
  use plait_int64
  implicit none
  public
end module plait
