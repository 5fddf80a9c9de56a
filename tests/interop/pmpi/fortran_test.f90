! A Fortran program of MPI's: calls of both interfaces give the sums they should. Which library
! served them stands in the log.
module sums
  implicit none
contains
  pure integer function term(call, rank, i)
    integer, intent(in) :: call, rank, i
    term = mod(call * 7919 + rank * 104729 + i * i * 31, 1009)
  end function

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    print '(2a)', 'FAILED: ', what
    error stop 1
  end subroutine

  subroutine expect_sum(call, ranks, found)
    integer, intent(in) :: call, ranks, found(:)
    integer :: i, rank, expected
    do i = 1, size(found)
      expected = 0
      do rank = 0, ranks - 1
        expected = expected + term(call, rank, i)
      end do
      call expect(found(i) == expected, 'a sum')
    end do
  end subroutine
end module

! mpif.h: handles are integers.
subroutine old_interface(rank, ranks)
  use sums
  implicit none
  include 'mpif.h'
  integer, intent(in) :: rank, ranks
  integer :: comm, error, i, requests(2), index, outcount, indices(2)
  integer :: statuses(MPI_STATUS_SIZE, 2), mine(100), all(100), blocks(100 * ranks)
  logical :: done
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, error)
  call MPI_Ibarrier(comm, requests(1), error)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, error)
  call MPI_Barrier(comm, error)  ! from here on Plait serves both kinds
  mine = [(term(1, rank, i), i = 1, 100)]
  call MPI_Allreduce(mine, all, 100, MPI_INTEGER, MPI_SUM, comm, error)
  call expect(error == MPI_SUCCESS, 'MPI_Allreduce')
  call expect_sum(1, ranks, all)
  all = mine
  call MPI_Allreduce(MPI_IN_PLACE, all, 100, MPI_INTEGER, MPI_SUM, comm, error)
  call expect_sum(1, ranks, all)
  all = 0
  call MPI_Iallreduce(mine, all, 100, MPI_INTEGER, MPI_SUM, comm, requests(1), error)
  call MPI_Iallgather(mine, 100, MPI_INTEGER, blocks, 100, MPI_INTEGER, comm, requests(2), error)
  call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, error)
  call expect(index >= 1 .and. index <= 2 .and. requests(index) == MPI_REQUEST_NULL, 'MPI_Waitany')
  call MPI_Waitsome(2, requests, outcount, indices, statuses, error)
  call expect(outcount == 1 .and. indices(1) == 3 - index, 'MPI_Waitsome')
  call expect_sum(1, ranks, all)
  do i = 0, ranks - 1
    call expect(blocks(100 * i + 7) == term(1, i, 7), 'MPI_Iallgather')
  end do
  call MPI_Ibarrier(comm, requests(1), error)
  done = .false.
  do while (.not. done)
    call MPI_Test(requests(1), done, statuses(:, 1), error)
  end do
  call expect(requests(1) == MPI_REQUEST_NULL, 'MPI_Test')
  call MPI_Testall(2, requests, done, MPI_STATUSES_IGNORE, error)
  call expect(done, 'MPI_Testall')
  call MPI_Comm_free(comm, error)
  call expect(comm == MPI_COMM_NULL, 'MPI_Comm_free')
end subroutine

program fortran_test
  use mpi_f08
  use sums
  implicit none
  external :: old_interface
  integer :: rank, ranks, i, index
  integer :: mine(100), all(100), word
  type(MPI_Comm) :: comm
  type(MPI_Request) :: requests(3)
  type(MPI_Status) :: status
  logical :: done
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Ibarrier(comm, requests(1))
  call MPI_Wait(requests(1), status)
  call MPI_Barrier(comm)
  mine = [(term(2, rank, i), i = 1, 100)]
  call MPI_Allreduce(mine, all, 100, MPI_INTEGER, MPI_SUM, comm)
  call expect_sum(2, ranks, all)
  all = mine
  call MPI_Allreduce(MPI_IN_PLACE, all, 100, MPI_INTEGER, MPI_SUM, comm)
  call expect_sum(2, ranks, all)
  all = 0
  call MPI_Iallreduce(mine, all, 100, MPI_INTEGER, MPI_SUM, comm, requests(1))
  call MPI_Irecv(word, 1, MPI_INTEGER, modulo(rank - 1, ranks), 0, comm, requests(2))
  call MPI_Isend(rank, 1, MPI_INTEGER, modulo(rank + 1, ranks), 0, comm, requests(3))
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
  call expect(word == modulo(rank - 1, ranks), 'a message')
  call expect_sum(2, ranks, all)
  call MPI_Ibcast(all, 100, MPI_INTEGER, 0, comm, requests(1))
  done = .false.
  do while (.not. done)
    call MPI_Testany(3, requests, index, done, status)
  end do
  call expect(index == 1, 'MPI_Testany')
  call MPI_Ibarrier(comm, requests(1))
  call MPI_Wait(requests(1), status)
  call expect(requests(1) == MPI_REQUEST_NULL, 'MPI_Wait')
  call MPI_Comm_free(comm)
  call old_interface(rank, ranks)
  call MPI_Finalize()
end program
