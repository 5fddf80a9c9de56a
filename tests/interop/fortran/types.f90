! The types beside reals and integers of 32 and 64 bits, and the operations that only some types
! have.
module other_types
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use plait
  use checks
  implicit none
  private
  public :: complex_numbers, short_integers, logicals, pairs, pairs_by_address, unfit_operations

  integer, parameter :: n = 300
  integer :: i
  integer, parameter :: at(n) = [(i, i = 1, n)]  ! where the elements are

contains

  subroutine complex_numbers()
    complex(real64), allocatable, target, asynchronous :: z(:, :), product(:, :)
    complex(real32), target, asynchronous :: c(n), scaled(n), average(n), every(n, 0:ranks - 1)
    complex(real64) :: expected(n)
    integer :: r
    z = reshape(cmplx(value(rank, at), value(rank, at + 1), real64), [5, n / 5])
    call plait_all_reduce_in_place(comm, z, PLAIT_SUM, stream)
    allocate (product, source=reshape(small(rank), shape(z)))
    call plait_all_reduce_in_place(comm, product, PLAIT_PROD, stream)
    c = cmplx(value(rank, at), -value(rank, at + 1), real32)
    call plait_all_reduce(comm, c, scaled, PLAIT_PREMUL_SUM, stream, &
      plait_options(scale=0.5_real64))
    call plait_all_reduce(comm, c, average, PLAIT_AVG, stream)
    call plait_all_gather(comm, c, every, stream)
    call plait_synchronize(comm, stream)
    call check(all(reshape(z, [n]) == cmplx(total(at), total(at + 1), real64)), 'complex sum')
    expected = small(0)
    do r = 1, ranks - 1
      expected = expected * small(r)
    end do
    call check(all(reshape(product, [n]) == expected), 'complex product')
    call check(all(scaled == cmplx(0.5 * total(at), -0.5 * total(at + 1), real32)), &
      'complex sum with a factor')
    call check(all(abs(average - cmplx(total(at), -total(at + 1), real32) / ranks) < 1e-4), &
      'complex average')
    call check(all([(all(every(:, r) == cmplx(value(r, at), -value(r, at + 1), real32)), &
                     r = 0, ranks - 1)]), 'all_gather of complex numbers')
  end subroutine

  !> Numbers whose products are exact.
  function small(of) result(z)
    integer, intent(in) :: of
    complex(real64) :: z(n)
    z = cmplx(modulo(value(of, at), 5) - 2, modulo(value(of, at + 1), 3) - 1, real64)
  end function

  subroutine short_integers()
    integer(int8), target, asynchronous :: bytes(n), greatest(n)
    integer(int16), target, asynchronous :: s(n), sums(n), and_of(n), or_of(n), xor_of(n), &
      blocks(n, 0:ranks - 1)
    integer(int16), dimension(n) :: wanted_and, wanted_or, wanted_xor
    integer :: r
    bytes = int(value(rank, at), int8)
    s = int(-100 * value(rank, at), int16)
    do r = 0, ranks - 1
      blocks(:, r) = int(value(rank, at + r), int16)
    end do
    call plait_all_reduce(comm, bytes, greatest, PLAIT_MAX, stream)
    call plait_all_reduce_in_place(comm, bytes, PLAIT_SUM, stream)
    call plait_all_reduce(comm, s, sums, PLAIT_SUM, stream)
    call plait_all_reduce(comm, s, and_of, PLAIT_BAND, stream)
    call plait_all_reduce(comm, s, or_of, PLAIT_BOR, stream)
    call plait_all_reduce(comm, s, xor_of, PLAIT_BXOR, stream)
    call plait_all_to_all_in_place(comm, blocks, stream)
    call plait_synchronize(comm, stream)
    call check(all(bytes == modulo(total(at) + 128, 256) - 128), 'int8, which wraps')
    call check(all(greatest == greatest_value()), 'max of int8')
    call check(all(sums == -100 * total(at)), 'int16')
    wanted_and = -1
    wanted_or = 0
    wanted_xor = 0
    do r = 0, ranks - 1
      wanted_and = iand(wanted_and, int(-100 * value(r, at), int16))
      wanted_or = ior(wanted_or, int(-100 * value(r, at), int16))
      wanted_xor = ieor(wanted_xor, int(-100 * value(r, at), int16))
      call check(all(blocks(:, r) == value(r, at + rank)), 'all_to_all of int16')
    end do
    call check(all(and_of == wanted_and), 'band of int16')
    call check(all(or_of == wanted_or), 'bor of int16')
    call check(all(xor_of == wanted_xor), 'bxor of int16')
  end subroutine

  function greatest_value() result(greatest)
    integer :: greatest(n), r
    greatest = value(0, at)
    do r = 1, ranks - 1
      greatest = max(greatest, value(r, at))
    end do
  end function

  subroutine logicals()
    logical(c_bool), target, asynchronous :: x(n), all_of(n), any_of(n), odd(n), from(n)
    integer(int32), target, asynchronous :: numbers(n), truth(n)
    logical :: wanted(n)
    integer :: r, trues(n)
    x = is_true(rank)
    numbers = merge(4, 0, is_true(rank))  ! any number but zero is true
    call plait_all_reduce(comm, x, all_of, PLAIT_LAND, stream)
    call plait_all_reduce(comm, x, any_of, PLAIT_LOR, stream)
    call plait_all_reduce(comm, x, odd, PLAIT_LXOR, stream)
    call plait_send_recv(comm, x, modulo(rank + 1, ranks), from, modulo(rank - 1, ranks), stream)
    call plait_all_reduce(comm, numbers, truth, PLAIT_LAND, stream)
    call plait_synchronize(comm, stream)
    trues = 0
    do r = 0, ranks - 1
      trues = trues + merge(1, 0, is_true(r))
    end do
    wanted = trues == ranks
    call check(all(all_of .eqv. wanted) .and. any(wanted) .and. .not. all(wanted), 'land')
    call check(all(truth == merge(1, 0, wanted)), 'land of int32')
    call check(all(any_of .eqv. trues > 0), 'lor')
    call check(all(odd .eqv. modulo(trues, 2) == 1), 'lxor')
    wanted = is_true(modulo(rank - 1, ranks))
    call check(all(from .eqv. wanted), 'send_recv of logicals')
  end subroutine

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
    type(plait_real64_index), target, asynchronous :: b(n), every(n, 0:ranks - 1)
    type(plait_int32_index), target, asynchronous :: c(n)
    type(plait_int64_index), target, asynchronous :: d(n)
    type(plait_real64_index), pointer, asynchronous :: x(:)
    type(plait_buffer) :: buffer
    integer, dimension(n) :: least, greatest
    integer :: r
    a = [(plait_real32_index(tied(rank, i), index_of(rank, i)), i = 1, n)]
    b = [(plait_real64_index(tied(rank, i), index_of(rank, i)), i = 1, n)]
    c = [(plait_int32_index(tied(rank, i), index_of(rank, i)), i = 1, n)]
    d = [(plait_int64_index(tied(rank, i), index_of(rank, i)), i = 1, n)]
    call plait_buffer_allocate(comm, n * c_sizeof(b(1)), buffer)
    call plait_view(buffer, x)
    call check(size(x) == n, 'a view of pairs')
    x = b
    call plait_all_reduce_in_place(comm, a, PLAIT_MINLOC, stream)
    call plait_all_gather(comm, b, every, stream)
    call plait_all_reduce_in_place(comm, b, PLAIT_MAXLOC, stream)
    call plait_all_reduce_in_place(comm, c, PLAIT_MINLOC, stream)
    call plait_all_reduce_in_place(comm, d, PLAIT_MAXLOC, stream)
    call plait_all_reduce_in_place(comm, x, PLAIT_MINLOC, stream)
    call plait_synchronize(comm, stream)
    least = winner(1, at)
    greatest = winner(-1, at)
    call check(all(a%value == tied(least, at)), 'minloc of real32')
    call check(all(a%index == index_of(least, at)), 'indices of minloc of real32')
    call check(all(b%value == tied(greatest, at)), 'maxloc of real64')
    call check(all(b%index == index_of(greatest, at)), 'indices of maxloc of real64')
    call check(all(c%value == tied(least, at)), 'minloc of int32')
    call check(all(c%index == index_of(least, at)), 'indices of minloc of int32')
    call check(all(d%value == tied(greatest, at)), 'maxloc of int64')
    call check(all(d%index == index_of(greatest, at)), 'indices of maxloc of int64')
    call check(all(x%value == tied(least, at)), 'minloc in symmetric memory')
    call check(all(x%index == index_of(least, at)), 'indices of minloc in symmetric memory')
    do r = 0, ranks - 1
      call check(all(every(:, r)%value == tied(r, at)) .and. &
        all(every(:, r)%index == index_of(r, at)), 'all_gather of pairs')
    end do
    call plait_buffer_free(buffer)
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

  !> Types that lack the operation.
  subroutine unfit_operations()
    real(real64), target, asynchronous :: x(2)
    complex(real64), target, asynchronous :: z(2)
    integer(int16), target, asynchronous :: s(2)
    logical(c_bool), target, asynchronous :: l(2)
    type(plait_int64_index), target, asynchronous :: p(2)
    integer :: status
    x = 1
    z = 1
    s = 1
    l = .true.
    p = plait_int64_index(1, 1)
    status = PLAIT_SUCCESS
    call plait_all_reduce_in_place(comm, z, PLAIT_MAX, stream, status=status)
    call unsupported(status, 'max needs an integer or floating-point type, not complex_f64')
    call plait_all_reduce_in_place(comm, s, PLAIT_PREMUL_SUM, stream, status=status)
    call unsupported(status, 'premul_sum needs a floating-point or complex type, not i16')
    call plait_reduce_in_place(comm, x, PLAIT_BXOR, 0, stream, status=status)
    call unsupported(status, 'bxor needs an integer type, not f64')
    call plait_all_reduce_in_place(comm, l, PLAIT_SUM, stream, status=status)
    call unsupported(status, 'sum needs numbers, not bool')
    call plait_scan_in_place(comm, x, PLAIT_LAND, stream, status=status)
    call unsupported(status, 'land needs an integer type or bool, not f64')
    call plait_all_reduce_in_place(comm, x, PLAIT_MINLOC, stream, status=status)
    call unsupported(status, 'minloc needs pairs of a value and an index, not f64')
    call plait_all_reduce_in_place(comm, p, PLAIT_MIN, stream, status=status)
    call unsupported(status, 'min needs an integer or floating-point type, not i64_i32')
    call plait_synchronize(comm, stream)
    call check(all(x == 1) .and. all(z == 1) .and. all(s == 1) .and. all(l) .and. &
      all(p%value == 1 .and. p%index == 1), 'an unfit operation has written')
  end subroutine

  subroutine unsupported(status, sentence)
    integer, intent(inout) :: status
    character(*), intent(in) :: sentence
    call check(status == PLAIT_ERROR_UNSUPPORTED, 'not refused: ' // sentence)
    call check(index(plait_last_error(), sentence) > 0, 'not said: ' // sentence)
    status = PLAIT_SUCCESS
  end subroutine
end module
