! The types beside reals and integers of 32 and 64 bits, and the operations that only some types
! have.
module other_types
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use plait
  use checks
  implicit none
  private
  public :: numbers, pairs, pairs_by_address, unfit_operations

  integer, parameter :: n = 300
  integer :: i
  integer, parameter :: at(n) = [(i, i = 1, n)]  ! where the elements are

contains

  !> One operation of each type, which gives other results in a type that is not its own.
  subroutine numbers()
    complex(real64), target, asynchronous :: z(5, n / 5)
    complex(real32), target, asynchronous :: c(n)
    integer(int8), target, asynchronous :: bytes(n), greatest(n)
    integer(int16), target, asynchronous :: s(n), xor_of(n)
    logical(c_bool), target, asynchronous :: x(n), odd(n)
    complex(real64) :: product(n)
    integer :: r, trues(n), most(n)
    integer(int16) :: wanted(n)
    z = reshape(small(rank), shape(z))
    c = cmplx(small(rank), kind=real32)
    bytes = int(value(rank, at) - 30, int8)
    s = int(-100 * value(rank, at), int16)
    x = is_true(rank)
    call plait_all_reduce_in_place(comm, z, PLAIT_PROD, stream)
    call plait_all_reduce_in_place(comm, c, PLAIT_PROD, stream)
    call plait_all_reduce(comm, bytes, greatest, PLAIT_MAX, stream)
    call plait_all_reduce(comm, s, xor_of, PLAIT_BXOR, stream)
    call plait_all_reduce_in_place(comm, s, PLAIT_MAX, stream)
    call plait_all_reduce(comm, x, odd, PLAIT_LXOR, stream)
    call plait_synchronize(comm, stream)
    product = 1
    trues = 0
    most = -30
    wanted = 0
    do r = 0, ranks - 1
      product = product * small(r)
      trues = trues + merge(1, 0, is_true(r))
      most = max(most, value(r, at) - 30)
      wanted = ieor(wanted, int(-100 * value(r, at), int16))
    end do
    call check(all(reshape(z, [n]) == product), 'product of complex(real64)')
    call check(all(c == cmplx(product, kind=real32)), 'product of complex(real32)')
    call check(all(greatest == most), 'max of int8')
    call check(all(xor_of == wanted), 'bxor of int16')
    call check(all(s == -100 * least_value()), 'max of int16')
    call check(all(odd .eqv. modulo(trues, 2) == 1), 'lxor of logicals')
  end subroutine

  !> Numbers whose products are exact.
  function small(of) result(z)
    integer, intent(in) :: of
    complex(real64) :: z(n)
    z = cmplx(modulo(value(of, at), 5) - 2, modulo(value(of, at + 1), 3) - 1, real64)
  end function

  function least_value() result(least)
    integer :: least(n), r
    least = value(0, at)
    do r = 1, ranks - 1
      least = min(least, value(r, at))
    end do
  end function

  function is_true(of) result(x)
    integer, intent(in) :: of
    logical(c_bool) :: x(n)
    x = modulo(value(of, at), 3) /= 0
  end function

  !> Values with many ties. Higher ranks have lower indices, so that ties are not the first rank's.
  elemental integer function tied(of, i)
    integer, intent(in) :: of, i
    tied = modulo(value(of, i), 4)
  end function
  elemental integer function index_of(of, i)
    integer, intent(in) :: of, i
    index_of = 1000 * (ranks - of) + i
  end function

  !> The rank whose pair at place i is the least, or for `sign` = -1 the greatest, of all ranks.
  elemental integer function winner(sign, i)
    integer, intent(in) :: sign, i
    integer :: r
    winner = 0
    do r = 1, ranks - 1
      if (sign * tied(r, i) <= sign * tied(winner, i)) winner = r
    end do
  end function

  subroutine pairs()
    type(plait_real32_index), target, asynchronous :: a(n)
    type(plait_real64_index), target, asynchronous :: b(n)
    type(plait_int32_index), target, asynchronous :: c(n)
    type(plait_int64_index), target, asynchronous :: d(n)
    type(plait_real64_index), pointer, asynchronous :: x(:)
    type(plait_buffer) :: buffer
    a = [(plait_real32_index(tied(rank, i), index_of(rank, i)), i = 1, n)]
    b = [(plait_real64_index(tied(rank, i), index_of(rank, i)), i = 1, n)]
    c = [(plait_int32_index(tied(rank, i), index_of(rank, i)), i = 1, n)]
    d = [(plait_int64_index(tied(rank, i), index_of(rank, i)), i = 1, n)]
    call plait_buffer_allocate(comm, n * c_sizeof(b(1)), buffer)
    call plait_view(buffer, x)
    call check(size(x) == n, 'a view of pairs')
    x = b
    call plait_all_reduce_in_place(comm, a, PLAIT_MINLOC, stream)
    call plait_all_reduce_in_place(comm, b, PLAIT_MAXLOC, stream)
    call plait_all_reduce_in_place(comm, c, PLAIT_MINLOC, stream)
    call plait_all_reduce_in_place(comm, d, PLAIT_MAXLOC, stream)
    call plait_all_reduce_in_place(comm, x, PLAIT_MINLOC, stream)
    call plait_synchronize(comm, stream)
    call check_place('minloc of real32', 1, int(a%value), a%index)
    call check_place('maxloc of real64', -1, int(b%value), b%index)
    call check_place('minloc of int32', 1, c%value, c%index)
    call check_place('maxloc of int64', -1, int(d%value), d%index)
    call check_place('minloc in symmetric memory', 1, int(x%value), x%index)
    call plait_buffer_free(buffer)
  end subroutine

  subroutine check_place(what, sign, values, indices)
    character(*), intent(in) :: what
    integer, intent(in) :: sign, values(n), indices(n)
    call check(all(values == tied(winner(sign, at), at)), what)
    call check(all(indices == index_of(winner(sign, at), at)), 'indices of ' // what)
  end subroutine

  !> With a type of the program's own, and the sizes of the module's.
  subroutine pairs_by_address()
    type, bind(c) :: found
      real(c_double) :: residual
      integer(c_int32_t) :: cell
    end type
    type(found), target, asynchronous :: mine, worst
    type(plait_real32_index) :: a
    type(plait_real64_index) :: b
    type(plait_int32_index) :: c
    type(plait_int64_index) :: d
    mine = found(0.5_real64 + modulo(rank + 1, ranks), 10 * rank)
    call plait_all_reduce(comm, c_loc(mine), c_loc(worst), 1_c_size_t, PLAIT_F64_I32, &
      PLAIT_MAXLOC, stream)
    call plait_synchronize(comm, stream)
    call check(worst%residual == ranks - 0.5_real64, 'maxloc by address')
    call check(worst%cell == 10 * (modulo(ranks - 2, ranks)), 'index of maxloc by address')
    call check(c_sizeof(a) == plait_size_of(PLAIT_F32_I32), 'size of plait_real32_index')
    call check(c_sizeof(b) == plait_size_of(PLAIT_F64_I32), 'size of plait_real64_index')
    call check(c_sizeof(c) == plait_size_of(PLAIT_I32_I32), 'size of plait_int32_index')
    call check(c_sizeof(d) == plait_size_of(PLAIT_I64_I32), 'size of plait_int64_index')
  end subroutine

  !> Types that lack the operation: the sentence names the type.
  subroutine unfit_operations()
    complex(real64), target, asynchronous :: z(2)
    type(plait_int64_index), target, asynchronous :: p(2)
    logical(c_bool), target, asynchronous :: l(2)
    integer :: status
    z = 1
    l = .true.
    p = plait_int64_index(1, 1)
    call plait_all_reduce_in_place(comm, z, PLAIT_MAX, stream, status=status)
    call unsupported(status, 'max needs an integer or floating-point type, not complex_f64')
    call plait_reduce_in_place(comm, l, PLAIT_SUM, 0, stream, status=status)
    call unsupported(status, 'sum needs numbers, not bool')
    call plait_scan_in_place(comm, p, PLAIT_MIN, stream, status=status)
    call unsupported(status, 'min needs an integer or floating-point type, not i64_i32')
    call plait_synchronize(comm, stream)
    call check(all(z == 1) .and. all(l) .and. all(p%value == 1 .and. p%index == 1), &
      'an unfit operation has written')
  end subroutine

  subroutine unsupported(status, sentence)
    integer, intent(in) :: status
    character(*), intent(in) :: sentence
    call check(status == PLAIT_ERROR_UNSUPPORTED, 'not refused: ' // sentence)
    call check(index(plait_last_error(), sentence) > 0, 'not said: ' // sentence)
  end subroutine
end module
