! SPDX-License-Identifier: Apache-2.0
! Plait's Fortran interface: use plait. docs/c.md is the guide. The comments in plait.h say what
! each procedure does; procedures have the same names as the functions there.
!
! The last argument of every procedure is an optional `status`: PLAIT_SUCCESS or an error, which
! plait_last_error() describes in one sentence. Without `status` an error writes that sentence and
! stops the program. `stream` is a native stream; without it a call uses the default stream.
! Arguments that may be left out come last. A function returns what that of plait.h writes to its
! last argument.
!
! The module plait_mpi has all of this one, and makes communicators from MPI's.
module plait
  use plait_types
  use plait_base
  use plait_real32
  use plait_real64
  use plait_complex_real32
  use plait_complex_real64
  use plait_int8
  use plait_int16
  use plait_int32
  use plait_int64
  use plait_logical
  use plait_pairs_real32
  use plait_pairs_real64
  use plait_pairs_int32
  use plait_pairs_int64
  implicit none
  public
  private :: finish, are_one_each, is_root
end module plait
