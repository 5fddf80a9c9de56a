! Shared by the files of fortran_test: the communicator, this rank's failures, and the data it
! sends.
module checks
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use plait
  implicit none
  type(plait_comm) :: comm
  type(c_ptr) :: stream
  integer :: rank, ranks, failures = 0

contains

  subroutine check(good, what)
    logical, intent(in) :: good
    character(*), intent(in) :: what
    if (good) return
    failures = failures + 1
    write (error_unit, '(a, i0, 4a)') 'rank ', rank, ': ', what, '; last error: ', &
      plait_last_error()
  end subroutine

  !> The last call's status must be that of a wrong argument, and its sentence have both words.
  !> Afterwards the status is success, so that a call which does not set it is noticed.
  subroutine refused(status, first, second)
    integer, intent(inout) :: status
    character(*), intent(in) :: first, second
    call check(status == PLAIT_ERROR_INVALID_ARGUMENT, 'not refused: ' // first // ' ' // second)
    call check(index(plait_last_error(), first) > 0, 'not said: ' // first)
    call check(index(plait_last_error(), second) > 0, 'not said: ' // second)
    status = PLAIT_SUCCESS
  end subroutine

  !> Small integers, whose sums are exact in all types.
  elemental integer function value(of, i)
    integer, intent(in) :: of, i
    value = mod(7 * i + 13 * of, 61)
  end function

  elemental integer function total(i)
    integer, intent(in) :: i
    integer :: r
    total = sum([(value(r, i), r = 0, ranks - 1)])
  end function
end module
