! A library on top of Plait, with Plait's types in its interface.
module totals
  use, intrinsic :: iso_fortran_env, only: real64
  use plait
  implicit none
  private
  public :: total
contains
  !> Replaces x by its sum over all ranks.
  subroutine total(comm, x)
    type(plait_comm), intent(in) :: comm
    real(real64), target, asynchronous, intent(inout) :: x(:)
    call plait_all_reduce_in_place(comm, x, PLAIT_SUM)
    call plait_synchronize(comm)
  end subroutine total
end module totals
