! With gfortran, fortran_test stops at the first invalid operation, division by zero or overflow
! (-ffpe-trap): no call may end it, and its traps must be as they were afterwards.
! floating_point_test has the kernels alone, in more types; here the program's own thread also
! creates communicators, chooses algorithms, ends groups and reports.
module traps_of_real32
  use, intrinsic :: iso_fortran_env, only: wp => real32
  include 'traps_calls.inc'
end module

module traps_of_real64
  use, intrinsic :: iso_fortran_env, only: wp => real64
  include 'traps_calls.inc'
end module

module floating_point_traps
  use, intrinsic :: ieee_exceptions
  use checks, only: check
  use traps_of_real32, only: traps_32 => traps
  use traps_of_real64, only: traps_64 => traps
  implicit none
  private
  public :: traps, are_as_before
  logical :: before(3)

contains

  subroutine traps()
    call traps_32()
    call traps_64()
  end subroutine

  !> The first call notes which exceptions trap.
  subroutine are_as_before(is_first)
    logical, intent(in) :: is_first
    logical :: on(3)
    call ieee_get_halting_mode([ieee_invalid, ieee_divide_by_zero, ieee_overflow], on)
    if (is_first) before = on
    call check(all(on .eqv. before), 'the traps have changed')
  end subroutine
end module
