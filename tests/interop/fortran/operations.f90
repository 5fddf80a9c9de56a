! Reductions by a procedure of the program.
module operation_calls
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real64
  use plait
  use checks
  implicit none
  private
  public :: operations

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
    integer, parameter :: n = 700
    real(real64), allocatable, target, asynchronous :: send(:, :, :), recv(:, :, :)
    integer(c_size_t), target, asynchronous :: calls
    type(plait_host_operation) :: op
    integer :: i, status
    logical :: right(5)
    call check(op%size == c_sizeof(op), 'size of plait_host_operation')
    calls = 0
    op = plait_host_operation(function=c_funloc(multiply), element_bytes=32, alignment=8, &
      context=c_loc(calls))
    allocate (send(2, 2, n * ranks), recv(2, 2, n))
    do i = 1, n * ranks
      send(:, :, i) = matrix(rank, i)
    end do
    right = .true.
    call plait_all_reduce_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream)
    call plait_synchronize(comm, stream)
    do i = 1, n
      right(1) = right(1) .and. all(recv(:, :, i) == product_of(ranks, i))
    end do
    call plait_reduce_scatter_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream)
    call plait_synchronize(comm, stream)
    do i = 1, n
      right(2) = right(2) .and. all(recv(:, :, i) == product_of(ranks, rank * n + i))
    end do
    call plait_reduce_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, 0, stream)
    call plait_synchronize(comm, stream)
    do i = 1, n
      right(3) = right(3) .and. (rank /= 0 .or. all(recv(:, :, i) == product_of(ranks, i)))
    end do
    call plait_scan_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream)
    call plait_synchronize(comm, stream)
    do i = 1, n
      right(4) = right(4) .and. all(recv(:, :, i) == product_of(rank + 1, i))
    end do
    recv = -1
    call plait_exscan_by(comm, c_loc(send), c_loc(recv), int(n, c_size_t), op, stream)
    call plait_synchronize(comm, stream)
    do i = 1, n
      if (rank == 0) right(5) = right(5) .and. all(recv(:, :, i) == -1)
      if (rank > 0) right(5) = right(5) .and. all(recv(:, :, i) == product_of(rank, i))
    end do
    call plait_scan_by(comm, c_loc(send), c_loc(send), int(n, c_size_t), op, stream)
    call plait_synchronize(comm, stream)
    do i = 1, n
      right(4) = right(4) .and. all(send(:, :, i) == product_of(rank + 1, i))
    end do
    call check(right(1), 'all_reduce_by')
    call check(right(2), 'reduce_scatter_by')
    call check(right(3), 'reduce_by')
    call check(right(4), 'scan_by')
    call check(right(5), 'exscan_by')
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
end module operation_calls
