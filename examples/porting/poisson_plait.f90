! Solves -Laplace u = f on the unit cube, with u = 0 on its faces, by conjugate gradients on n^3
! points; n is the program's argument. Each rank has some of the z layers. An array has one more
! point on every side: the faces of the cube, which stay 0, or the halo, a copy of the neighbour's
! nearest layer.
program poisson
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use mpi_f08
  use plait_mpi
  implicit none
  real(real64), parameter :: tolerance = 1e-8_real64  ! of the residual, relative to that of u = 0
  type(plait_comm) :: comm
  integer :: up = PLAIT_PROC_NULL, down = PLAIT_PROC_NULL  ! for ranks at a face of the cube
  real(real64), allocatable, dimension(:, :, :) :: u, r, p, q
  real(real64) :: h, s, rr, rr_before, pq, alpha, beta, goal, residual, begin, seconds, error
  integer :: n, rank, ranks, first, layers, iterations, x, y, z
  character(16) :: argument

  n = 64
  call get_command_argument(1, argument)
  if (argument /= '') read (argument, *) n
  call MPI_Init()
  ! The arrays are host memory.
  call plait_comm_create(MPI_COMM_WORLD%MPI_VAL, comm, plait_config(backend=PLAIT_BACKEND_HOST))
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  if (n < ranks) then
    if (rank == 0) write (error_unit, '(i0, a, i0, a)') n, ' layers are not enough for ', ranks, &
      ' ranks'
    call MPI_Abort(MPI_COMM_WORLD, 2)
  end if
  if (rank > 0) down = rank - 1
  if (rank < ranks - 1) up = rank + 1
  first = n * rank / ranks
  layers = n * (rank + 1) / ranks - first
  h = 1.0_real64 / (n + 1)
  allocate (u(0:n + 1, 0:n + 1, 0:layers + 1), source=0.0_real64)
  allocate (r, p, q, source=u)

  do concurrent (z = 1:layers, y = 1:n, x = 1:n)
    r(x, y, z) = h**2 * minus_laplace_of_exact(x * h, y * h, (first + z) * h)
  end do
  p = r
  rr = sum_of_ranks(sum(r**2))
  call exchange(p)  ! so that the ranks are connected before the clock starts

  residual = sqrt(rr)
  goal = tolerance * residual
  iterations = 0
  begin = MPI_Wtime()
  do while (residual > goal .and. iterations < 20 * n)
    call exchange(p)
    s = 0
    do z = 1, layers
      do y = 1, n
        do x = 1, n
          q(x, y, z) = 6 * p(x, y, z) - p(x - 1, y, z) - p(x + 1, y, z) - p(x, y - 1, z) &
            - p(x, y + 1, z) - p(x, y, z - 1) - p(x, y, z + 1)
          s = s + p(x, y, z) * q(x, y, z)
        end do
      end do
    end do
    pq = sum_of_ranks(s)
    alpha = 0
    if (pq > 0) alpha = rr / pq  ! r may have become 0
    s = 0
    do z = 1, layers
      do y = 1, n
        do x = 1, n
          u(x, y, z) = u(x, y, z) + alpha * p(x, y, z)
          r(x, y, z) = r(x, y, z) - alpha * q(x, y, z)
          s = s + r(x, y, z)**2
        end do
      end do
    end do
    rr_before = rr
    rr = sum_of_ranks(s)
    beta = 0
    if (rr_before > 0) beta = rr / rr_before
    do z = 1, layers
      do y = 1, n
        do x = 1, n
          p(x, y, z) = r(x, y, z) + beta * p(x, y, z)
        end do
      end do
    end do
    iterations = iterations + 1
    if (modulo(iterations, 10) == 0) then
      residual = sqrt(rr)
      if (rank == 0) print '(a, i0, a, es18.12e2)', 'iteration ', iterations, ': residual ', &
        residual
    end if
  end do
  seconds = MPI_Wtime() - begin

  error = 0
  do z = 1, layers
    do y = 1, n
      do x = 1, n
        error = max(error, abs(u(x, y, z) - exact(x * h, y * h, (first + z) * h)))
      end do
    end do
  end do
  call MPI_Allreduce(MPI_IN_PLACE, seconds, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
  call MPI_Allreduce(MPI_IN_PLACE, error, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
  if (rank == 0) print '(i0, a, es7.1e2, a, f0.1, a)', ranks, ' ranks, error ', error, ', ', &
    seconds / iterations * 1e6_real64, ' us per iteration'
  call plait_comm_destroy(comm)
  call MPI_Finalize()
  if (.not. (residual <= goal .and. error <= tolerance)) error stop 1

contains

  !> Fills the halo of p.
  subroutine exchange(p)
    real(real64), intent(inout), contiguous, target, asynchronous :: p(0:, 0:, 0:)
    call plait_send_recv(comm, p(:, :, layers), up, p(:, :, 0), down)
    call plait_send_recv(comm, p(:, :, 1), down, p(:, :, layers + 1), up)
    call plait_synchronize(comm)
  end subroutine

  !> Sums over all ranks.
  real(real64) function sum_of_ranks(mine) result(all)
    real(real64), intent(in) :: mine
    call plait_all_reduce(comm, mine, all, PLAIT_SUM, options=plait_options(blocking=.true.))
  end function

  !> The 7-point stencil is exact for cubic polynomials, so the discrete solution is this too.
  pure real(real64) function exact(x, y, z)
    real(real64), intent(in) :: x, y, z
    exact = x * (1 - x) * y * (1 - y) * z * (1 - z * z)
  end function

  pure real(real64) function minus_laplace_of_exact(x, y, z)
    real(real64), intent(in) :: x, y, z
    minus_laplace_of_exact = 2 * (x * (1 - x) + y * (1 - y)) * z * (1 - z * z) &
      + 6 * z * x * (1 - x) * y * (1 - y)
  end function
end program
