! Reductions by a procedure of the program.
module operation_calls
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real64
  use plait
  use checks
  implicit none
  private
  public :: operations
  integer, parameter :: n = 700

contains

  !> The product of 2 x 2 matrices, which does not commute.
  subroutine multiply(in, inout, count, context) bind(c)
    type(c_ptr), value :: in, inout, context
    integer(c_size_t), value :: count
    real(real64), pointer :: lower(:, :, :), higher(:, :, :)
    integer(c_size_t), pointer :: calls
    integer(c_size_t) :: i
    call c_f_pointer(in, lower, [2_c_size_t, 2_c_size_t, count])
    call c_f_pointer(inout, higher, [2_c_size_t, 2_c_size_t, count])
    call c_f_pointer(context, calls)
    do i = 1, count
      higher(:, :, i) = matmul(lower(:, :, i), higher(:, :, i))
    end do
    calls = calls + 1
  end subroutine

  function matrix(of_rank, i) result(m)
    integer, intent(in) :: of_rank, i
    real(real64) :: m(2, 2)
    m = reshape([1, modulo(of_rank + i, 3), of_rank, 2], [2, 2])
  end function

  !> The product of the first `terms` ranks.
  function product_of(terms, i) result(m)
    integer, intent(in) :: terms, i
    real(real64) :: m(2, 2)
    integer :: r
    m = matrix(0, i)
    do r = 1, terms - 1
      m = matmul(m, matrix(r, i))
    end do
  end function

  subroutine operations()
    real(real64), allocatable, target, asynchronous :: send(:, :, :), recv(:, :, :)
    integer(c_size_t), target, asynchronous :: calls
    type(plait_host_operation) :: op
    integer :: i, status
    call check(op%size == c_sizeof(op), 'size of plait_host_operation')
    calls = 0
    op = plait_host_operation(function=c_funloc(multiply), element_bytes=32, alignment=8, &
      context=c_loc(calls))
    allocate (send(2, 2, n * ranks), recv(2, 2, n))
    do i = 1, n * ranks
      send(:, :, i) = matrix(rank, i)
    end do
    call plait_all_reduce_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream)
    call check_product('all_reduce_by', recv, ranks, 0)
    call plait_reduce_scatter_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream)
    call check_product('reduce_scatter_by', recv, ranks, rank * n)
    call plait_reduce_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, 0, stream)
    if (rank == 0) call check_product('reduce_by', recv, ranks, 0)
    call plait_scan_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream)
    call check_product('scan_by', recv, rank + 1, 0)
    recv = -1
    call plait_exscan_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream)
    if (rank > 0) call check_product('exscan_by', recv, rank, 0)
    call plait_scan_by(comm, c_loc(send), c_loc(send), int(n, c_size_t), op, stream)
    call check_product('scan_by in place', send, rank + 1, 0)
    if (rank == 0) call check(all(recv == -1), 'exscan_by has written on rank 0')
    call check(calls > 0 .or. ranks == 1, 'calls of the procedure')
    op%function = c_null_funptr
    call plait_all_reduce_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream, status)
    call check(status == PLAIT_ERROR_INVALID_ARGUMENT .and. &
      index(plait_last_error(), 'function is null') > 0, 'no procedure')
    call plait_scan_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream, status)
    call refused(status, 'scan: rank', 'function is null')
    call plait_exscan_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream, status)
    call refused(status, 'exscan: rank', 'function is null')
  end subroutine

  !> Waits, and compares n products of the first `terms` ranks, from place `first` on.
  subroutine check_product(what, got, terms, first)
    character(*), intent(in) :: what
    real(real64), intent(in), asynchronous :: got(2, 2, *)
    integer, intent(in) :: terms, first
    integer :: i
    call plait_synchronize(comm, stream)
    call check(all([(all(got(:, :, i) == product_of(terms, first + i)), i = 1, n)]), what)
  end subroutine
end module operation_calls
