! The collectives and messages of module plait on Fortran's own arrays: of real32, real64, int32 and int64, of any rank, also
! scalars.
!
! Arrays are host memory, so this is for the host target, for memory that a GPU reaches as well, and for pointers to device memory.
! They must be contiguous, as a copy that the compiler makes would be gone before an asynchronous call is done; one that is not is
! refused, and so is an assumed-size one, a(*), which does not know its length. From the call until its stream has been
! synchronised they must not be touched: give them the attributes target (or pointer) and asynchronous.
!
! One procedure for each call and type says no more than the type; what they have in common is at the end.
module plait_arrays
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use plait_base
  implicit none
  private

  !> Where an array is and what it holds.
  type :: elements
    type(c_ptr) :: at
    integer(c_size_t) :: count  ! less than 0: of an assumed-size array, which does not know it
    logical :: contiguous
    integer :: type
    character(4) :: name  ! what the caller calls the argument
  end type

  interface described
    module procedure described_real32, described_real64, described_int32, described_int64
  end interface

  !> call plait_view(buffer, x): x(:) is the whole of this rank's part, or null if it has no room for an element.
  interface plait_view
    module procedure view_real32, view_real64, view_int32, view_int64
  end interface
  interface plait_all_reduce
    module procedure all_reduce_real32, all_reduce_real64, all_reduce_int32, all_reduce_int64
  end interface
  interface plait_reduce_scatter
    module procedure reduce_scatter_real32, reduce_scatter_real64, reduce_scatter_int32, reduce_scatter_int64
  end interface
  interface plait_all_gather
    module procedure all_gather_real32, all_gather_real64, all_gather_int32, all_gather_int64
  end interface
  interface plait_broadcast
    module procedure broadcast_real32, broadcast_real64, broadcast_int32, broadcast_int64
  end interface
  interface plait_reduce
    module procedure reduce_real32, reduce_real64, reduce_int32, reduce_int64
  end interface
  interface plait_all_to_all
    module procedure all_to_all_real32, all_to_all_real64, all_to_all_int32, all_to_all_int64
  end interface
  interface plait_gather
    module procedure gather_real32, gather_real64, gather_int32, gather_int64
  end interface
  interface plait_scatter
    module procedure scatter_real32, scatter_real64, scatter_int32, scatter_int64
  end interface

  interface plait_send
    module procedure send_real32, send_real64, send_int32, send_int64
  end interface
  interface plait_recv
    module procedure recv_real32, recv_real64, recv_int32, recv_int64
  end interface
  interface plait_send_recv
    module procedure send_recv_real32, send_recv_real64, send_recv_int32, send_recv_int64
  end interface
  interface plait_all_to_all_v
    module procedure all_to_all_v_real32, all_to_all_v_real64, all_to_all_v_int32, all_to_all_v_int64
  end interface

  ! In place: the array is `send` and `recv`. (One array as two arguments, of which one is changed, is not Fortran.) Where one
  ! of these has a block for each rank, it is the array, and the other is this rank's own block in it: block r of rank r. Of a gather or
  ! a scatter only the root has such an array; that of another rank is its block alone.
  interface plait_all_reduce_in_place
    module procedure all_reduce_in_place_real32, all_reduce_in_place_real64, all_reduce_in_place_int32, all_reduce_in_place_int64
  end interface
  interface plait_reduce_scatter_in_place
    module procedure reduce_scatter_in_place_real32, reduce_scatter_in_place_real64, &
      reduce_scatter_in_place_int32, reduce_scatter_in_place_int64
  end interface
  interface plait_all_gather_in_place
    module procedure all_gather_in_place_real32, all_gather_in_place_real64, &
      all_gather_in_place_int32, all_gather_in_place_int64
  end interface
  interface plait_broadcast_in_place
    module procedure broadcast_in_place_real32, broadcast_in_place_real64, broadcast_in_place_int32, broadcast_in_place_int64
  end interface
  interface plait_reduce_in_place
    module procedure reduce_in_place_real32, reduce_in_place_real64, reduce_in_place_int32, reduce_in_place_int64
  end interface
  interface plait_all_to_all_in_place
    module procedure all_to_all_in_place_real32, all_to_all_in_place_real64, all_to_all_in_place_int32, all_to_all_in_place_int64
  end interface
  interface plait_gather_in_place
    module procedure gather_in_place_real32, gather_in_place_real64, &
      gather_in_place_int32, gather_in_place_int64
  end interface
  interface plait_scatter_in_place
    module procedure scatter_in_place_real32, scatter_in_place_real64, &
      scatter_in_place_int32, scatter_in_place_int64
  end interface

  public :: plait_view
  public :: plait_all_reduce, plait_reduce_scatter, plait_all_gather, plait_broadcast, plait_reduce, plait_all_to_all, &
    plait_gather, plait_scatter
  public :: plait_send, plait_recv, plait_send_recv, plait_all_to_all_v
  public :: plait_all_reduce_in_place, plait_reduce_scatter_in_place, plait_all_gather_in_place, plait_broadcast_in_place, &
    plait_reduce_in_place, plait_all_to_all_in_place, plait_gather_in_place, plait_scatter_in_place

contains

  ! --- real32 ---------------------------------------------------------------------------------------------------------------------

  type(elements) function described_real32(x, name) result(of)
    real(real32), intent(in), target, asynchronous :: x(..)
    character(*), intent(in) :: name
    of = elements(c_loc(x), size(x, kind=c_size_t), is_contiguous(x), PLAIT_F32, name)
  end function

  subroutine view_real32(buffer, x, status)
    type(plait_buffer), intent(in) :: buffer
    real(real32), pointer, intent(out) :: x(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: at
    integer(c_size_t) :: count
    x => null()
    call find(buffer, PLAIT_F32, at, count, status)
    if (count > 0) call c_f_pointer(at, x, [count])
  end subroutine

  subroutine all_reduce_real32(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_reduce_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_real32(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_scatter_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, stream, options, status)
  end subroutine

  subroutine all_gather_real32(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_gather_arrays(comm, described(send, 'send'), described(recv, 'recv'), stream, options, status)
  end subroutine

  subroutine broadcast_real32(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call broadcast_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine reduce_real32(comm, send, recv, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_real32(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_arrays(comm, described(send, 'send'), described(recv, 'recv'), stream, options, status)
  end subroutine

  subroutine gather_real32(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call gather_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine scatter_real32(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call scatter_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine send_real32(comm, data, to, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: data(..)
    integer, intent(in) :: to
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call send_array(comm, described(data, 'data'), to, stream, options, status)
  end subroutine

  subroutine recv_real32(comm, data, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: data(..)
    integer, intent(in) :: from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call recv_array(comm, described(data, 'data'), from, stream, options, status)
  end subroutine

  subroutine send_recv_real32(comm, send, to, recv, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: to, from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call send_recv_arrays(comm, described(send, 'send'), to, described(recv, 'recv'), from, stream, options, status)
  end subroutine

  subroutine all_to_all_v_real32(comm, send, send_counts, send_displacements, recv, recv_counts, recv_displacements, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(in), target, asynchronous :: send(..)
    real(real32), intent(inout), target, asynchronous :: recv(..)
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:), recv_counts(:), recv_displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_v_arrays(comm, described(send, 'send'), send_counts, send_displacements, described(recv, 'recv'), recv_counts, &
      recv_displacements, stream, options, status)
  end subroutine

  subroutine all_reduce_in_place_real32(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_reduce_arrays(comm, described(x, 'x'), described(x, 'x'), op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_in_place_real32(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_scatter_array(comm, described(x, 'x'), op, stream, options, status)
  end subroutine

  subroutine all_gather_in_place_real32(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: x(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_gather_array(comm, described(x, 'x'), stream, options, status)
  end subroutine

  subroutine broadcast_in_place_real32(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call broadcast_arrays(comm, described(x, 'x'), described(x, 'x'), root, stream, options, status)
  end subroutine

  subroutine reduce_in_place_real32(comm, x, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_arrays(comm, described(x, 'x'), described(x, 'x'), op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_in_place_real32(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: x(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_array(comm, described(x, 'x'), stream, options, status)
  end subroutine

  subroutine gather_in_place_real32(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call gather_array(comm, described(x, 'x'), root, stream, options, status)
  end subroutine

  subroutine scatter_in_place_real32(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call scatter_array(comm, described(x, 'x'), root, stream, options, status)
  end subroutine

  ! --- real64 ---------------------------------------------------------------------------------------------------------------------

  type(elements) function described_real64(x, name) result(of)
    real(real64), intent(in), target, asynchronous :: x(..)
    character(*), intent(in) :: name
    of = elements(c_loc(x), size(x, kind=c_size_t), is_contiguous(x), PLAIT_F64, name)
  end function

  subroutine view_real64(buffer, x, status)
    type(plait_buffer), intent(in) :: buffer
    real(real64), pointer, intent(out) :: x(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: at
    integer(c_size_t) :: count
    x => null()
    call find(buffer, PLAIT_F64, at, count, status)
    if (count > 0) call c_f_pointer(at, x, [count])
  end subroutine

  subroutine all_reduce_real64(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_reduce_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_real64(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_scatter_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, stream, options, status)
  end subroutine

  subroutine all_gather_real64(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_gather_arrays(comm, described(send, 'send'), described(recv, 'recv'), stream, options, status)
  end subroutine

  subroutine broadcast_real64(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call broadcast_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine reduce_real64(comm, send, recv, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_real64(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_arrays(comm, described(send, 'send'), described(recv, 'recv'), stream, options, status)
  end subroutine

  subroutine gather_real64(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call gather_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine scatter_real64(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call scatter_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine send_real64(comm, data, to, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: data(..)
    integer, intent(in) :: to
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call send_array(comm, described(data, 'data'), to, stream, options, status)
  end subroutine

  subroutine recv_real64(comm, data, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: data(..)
    integer, intent(in) :: from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call recv_array(comm, described(data, 'data'), from, stream, options, status)
  end subroutine

  subroutine send_recv_real64(comm, send, to, recv, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: to, from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call send_recv_arrays(comm, described(send, 'send'), to, described(recv, 'recv'), from, stream, options, status)
  end subroutine

  subroutine all_to_all_v_real64(comm, send, send_counts, send_displacements, recv, recv_counts, recv_displacements, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(in), target, asynchronous :: send(..)
    real(real64), intent(inout), target, asynchronous :: recv(..)
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:), recv_counts(:), recv_displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_v_arrays(comm, described(send, 'send'), send_counts, send_displacements, described(recv, 'recv'), recv_counts, &
      recv_displacements, stream, options, status)
  end subroutine

  subroutine all_reduce_in_place_real64(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_reduce_arrays(comm, described(x, 'x'), described(x, 'x'), op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_in_place_real64(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_scatter_array(comm, described(x, 'x'), op, stream, options, status)
  end subroutine

  subroutine all_gather_in_place_real64(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: x(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_gather_array(comm, described(x, 'x'), stream, options, status)
  end subroutine

  subroutine broadcast_in_place_real64(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call broadcast_arrays(comm, described(x, 'x'), described(x, 'x'), root, stream, options, status)
  end subroutine

  subroutine reduce_in_place_real64(comm, x, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_arrays(comm, described(x, 'x'), described(x, 'x'), op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_in_place_real64(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: x(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_array(comm, described(x, 'x'), stream, options, status)
  end subroutine

  subroutine gather_in_place_real64(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call gather_array(comm, described(x, 'x'), root, stream, options, status)
  end subroutine

  subroutine scatter_in_place_real64(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    real(real64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call scatter_array(comm, described(x, 'x'), root, stream, options, status)
  end subroutine

  ! --- int32 ----------------------------------------------------------------------------------------------------------------------

  type(elements) function described_int32(x, name) result(of)
    integer(int32), intent(in), target, asynchronous :: x(..)
    character(*), intent(in) :: name
    of = elements(c_loc(x), size(x, kind=c_size_t), is_contiguous(x), PLAIT_I32, name)
  end function

  subroutine view_int32(buffer, x, status)
    type(plait_buffer), intent(in) :: buffer
    integer(int32), pointer, intent(out) :: x(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: at
    integer(c_size_t) :: count
    x => null()
    call find(buffer, PLAIT_I32, at, count, status)
    if (count > 0) call c_f_pointer(at, x, [count])
  end subroutine

  subroutine all_reduce_int32(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_reduce_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_int32(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_scatter_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, stream, options, status)
  end subroutine

  subroutine all_gather_int32(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_gather_arrays(comm, described(send, 'send'), described(recv, 'recv'), stream, options, status)
  end subroutine

  subroutine broadcast_int32(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call broadcast_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine reduce_int32(comm, send, recv, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_int32(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_arrays(comm, described(send, 'send'), described(recv, 'recv'), stream, options, status)
  end subroutine

  subroutine gather_int32(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call gather_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine scatter_int32(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call scatter_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine send_int32(comm, data, to, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: data(..)
    integer, intent(in) :: to
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call send_array(comm, described(data, 'data'), to, stream, options, status)
  end subroutine

  subroutine recv_int32(comm, data, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: data(..)
    integer, intent(in) :: from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call recv_array(comm, described(data, 'data'), from, stream, options, status)
  end subroutine

  subroutine send_recv_int32(comm, send, to, recv, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: to, from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call send_recv_arrays(comm, described(send, 'send'), to, described(recv, 'recv'), from, stream, options, status)
  end subroutine

  subroutine all_to_all_v_int32(comm, send, send_counts, send_displacements, recv, recv_counts, recv_displacements, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(in), target, asynchronous :: send(..)
    integer(int32), intent(inout), target, asynchronous :: recv(..)
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:), recv_counts(:), recv_displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_v_arrays(comm, described(send, 'send'), send_counts, send_displacements, described(recv, 'recv'), recv_counts, &
      recv_displacements, stream, options, status)
  end subroutine

  subroutine all_reduce_in_place_int32(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_reduce_arrays(comm, described(x, 'x'), described(x, 'x'), op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_in_place_int32(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_scatter_array(comm, described(x, 'x'), op, stream, options, status)
  end subroutine

  subroutine all_gather_in_place_int32(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: x(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_gather_array(comm, described(x, 'x'), stream, options, status)
  end subroutine

  subroutine broadcast_in_place_int32(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call broadcast_arrays(comm, described(x, 'x'), described(x, 'x'), root, stream, options, status)
  end subroutine

  subroutine reduce_in_place_int32(comm, x, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_arrays(comm, described(x, 'x'), described(x, 'x'), op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_in_place_int32(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: x(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_array(comm, described(x, 'x'), stream, options, status)
  end subroutine

  subroutine gather_in_place_int32(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call gather_array(comm, described(x, 'x'), root, stream, options, status)
  end subroutine

  subroutine scatter_in_place_int32(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int32), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call scatter_array(comm, described(x, 'x'), root, stream, options, status)
  end subroutine

  ! --- int64 ----------------------------------------------------------------------------------------------------------------------

  type(elements) function described_int64(x, name) result(of)
    integer(int64), intent(in), target, asynchronous :: x(..)
    character(*), intent(in) :: name
    of = elements(c_loc(x), size(x, kind=c_size_t), is_contiguous(x), PLAIT_I64, name)
  end function

  subroutine view_int64(buffer, x, status)
    type(plait_buffer), intent(in) :: buffer
    integer(int64), pointer, intent(out) :: x(:)
    integer, intent(out), optional :: status
    type(c_ptr) :: at
    integer(c_size_t) :: count
    x => null()
    call find(buffer, PLAIT_I64, at, count, status)
    if (count > 0) call c_f_pointer(at, x, [count])
  end subroutine

  subroutine all_reduce_int64(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_reduce_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_int64(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_scatter_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, stream, options, status)
  end subroutine

  subroutine all_gather_int64(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_gather_arrays(comm, described(send, 'send'), described(recv, 'recv'), stream, options, status)
  end subroutine

  subroutine broadcast_int64(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call broadcast_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine reduce_int64(comm, send, recv, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_arrays(comm, described(send, 'send'), described(recv, 'recv'), op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_int64(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_arrays(comm, described(send, 'send'), described(recv, 'recv'), stream, options, status)
  end subroutine

  subroutine gather_int64(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call gather_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine scatter_int64(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call scatter_arrays(comm, described(send, 'send'), described(recv, 'recv'), root, stream, options, status)
  end subroutine

  subroutine send_int64(comm, data, to, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: data(..)
    integer, intent(in) :: to
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call send_array(comm, described(data, 'data'), to, stream, options, status)
  end subroutine

  subroutine recv_int64(comm, data, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: data(..)
    integer, intent(in) :: from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call recv_array(comm, described(data, 'data'), from, stream, options, status)
  end subroutine

  subroutine send_recv_int64(comm, send, to, recv, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    integer, intent(in) :: to, from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call send_recv_arrays(comm, described(send, 'send'), to, described(recv, 'recv'), from, stream, options, status)
  end subroutine

  subroutine all_to_all_v_int64(comm, send, send_counts, send_displacements, recv, recv_counts, recv_displacements, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(in), target, asynchronous :: send(..)
    integer(int64), intent(inout), target, asynchronous :: recv(..)
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:), recv_counts(:), recv_displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_v_arrays(comm, described(send, 'send'), send_counts, send_displacements, described(recv, 'recv'), recv_counts, &
      recv_displacements, stream, options, status)
  end subroutine

  subroutine all_reduce_in_place_int64(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_reduce_arrays(comm, described(x, 'x'), described(x, 'x'), op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_in_place_int64(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_scatter_array(comm, described(x, 'x'), op, stream, options, status)
  end subroutine

  subroutine all_gather_in_place_int64(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: x(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_gather_array(comm, described(x, 'x'), stream, options, status)
  end subroutine

  subroutine broadcast_in_place_int64(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call broadcast_arrays(comm, described(x, 'x'), described(x, 'x'), root, stream, options, status)
  end subroutine

  subroutine reduce_in_place_int64(comm, x, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call reduce_arrays(comm, described(x, 'x'), described(x, 'x'), op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_in_place_int64(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: x(..)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call all_to_all_array(comm, described(x, 'x'), stream, options, status)
  end subroutine

  subroutine gather_in_place_int64(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call gather_array(comm, described(x, 'x'), root, stream, options, status)
  end subroutine

  subroutine scatter_in_place_int64(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    integer(int64), intent(inout), target, asynchronous :: x(..)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    call scatter_array(comm, described(x, 'x'), root, stream, options, status)
  end subroutine

  ! --- all types ------------------------------------------------------------------------------------------------------------------

  !> How many whole elements a buffer has room for; 0 after an error.
  subroutine find(buffer, type, at, count, status)
    type(plait_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: type
    type(c_ptr), intent(out) :: at
    integer(c_size_t), intent(out) :: count
    integer, intent(out), optional :: status
    count = plait_buffer_bytes(buffer, status) / plait_size_of(type)
    at = plait_buffer_pointer(buffer, status)
  end subroutine

  !> Whether it is known where all of an array's elements lie: one behind the other, and how many. If not, it is refused.
  logical function is_whole(name, comm, array, status)
    character(*), intent(in) :: name
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: array
    integer, intent(out), optional :: status
    integer :: rank, problem
    character(200) :: sentence
    is_whole = array%contiguous .and. array%count >= 0
    if (is_whole) return
    rank = plait_comm_rank(comm, problem)
    is_whole = problem /= PLAIT_SUCCESS  ! then the call itself refuses the communicator
    if (is_whole) return
    write (sentence, '(3a, i0, 3a)') 'plait_', name, ': rank ', rank, ': ', trim(array%name), &
      ' is not contiguous, and a copy of it would be gone before the call is done'
    if (array%count < 0) write (sentence, '(3a, i0, 5a)') 'plait_', name, ': rank ', rank, ': ', trim(array%name), &
      ' is an assumed-size array, whose length is not known: pass a section of it, like ', trim(array%name), '(1:n)'
    call plait_refuse(trim(sentence), status)
  end function

  !> Whether two arrays fit each other, and then the elements of a block; if not, they are refused. An array has one block or one
  !> for each rank; where it is the root's alone, other ranks may pass anything.
  logical function fits(name, comm, send, recv, sends_all, receives_all, count, send_root, recv_root, status)
    character(*), intent(in) :: name
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    logical, intent(in) :: sends_all, receives_all  ! a block for each rank
    integer(c_size_t), intent(out) :: count
    integer, intent(in), optional :: send_root, recv_root  ! whose the array is alone
    integer, intent(out), optional :: status
    integer(c_size_t) :: sent, received
    integer :: rank, ranks, problem
    logical :: sends, receives
    character(200) :: sentence
    count = 0
    fits = .true.
    call place(comm, rank, ranks, problem)
    if (problem /= PLAIT_SUCCESS) return  ! the call itself refuses the communicator
    sends = .true.
    receives = .true.
    if (present(send_root)) sends = rank == send_root
    if (present(recv_root)) receives = rank == recv_root
    if (sends) fits = is_whole(name, comm, send, status)
    if (fits .and. receives) fits = is_whole(name, comm, recv, status)
    if (.not. fits) return
    sent = send%count
    received = recv%count
    if (sends_all) sent = sent / ranks
    if (receives_all) received = received / ranks
    count = merge(sent, received, sends)
    fits = .not. ((sends .and. receives .and. sent /= received) .or. &
                  (sends .and. sends_all .and. sent * ranks /= send%count) .or. &
                  (receives .and. receives_all .and. received * ranks /= recv%count))
    if (fits) return
    write (sentence, '(3a, 4(i0, a))') 'plait_', name, ': rank ', rank, ': send has ', send%count, ' elements and recv ', &
      recv%count, ', which do not fit each other for ', ranks, ' ranks'
    call plait_refuse(trim(sentence), status)
  end function

  !> Whether an array of a call in place can be cut into a block for each rank, and then the elements of a block, and where this
  !> rank's begins; if not, it is refused. With a root, only the root's is cut, and that of another rank is its block.
  logical function is_cut(name, comm, x, count, own, root, status)
    character(*), intent(in) :: name
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer(c_size_t), intent(out) :: count
    type(c_ptr), intent(out) :: own
    integer, intent(in), optional :: root
    integer, intent(out), optional :: status
    integer :: rank, ranks, problem
    character(200) :: sentence
    count = 0
    own = x%at
    is_cut = .true.
    call place(comm, rank, ranks, problem)
    if (problem /= PLAIT_SUCCESS) return  ! the call itself refuses the communicator
    is_cut = is_whole(name, comm, x, status)
    if (.not. is_cut) return
    count = x%count
    if (present(root)) then
      if (rank /= root) return
    end if
    count = x%count / ranks
    is_cut = count * ranks == x%count
    if (is_cut) own = transfer(transfer(x%at, 0_c_intptr_t) + rank * count * plait_size_of(x%type), own)
    if (is_cut) return
    write (sentence, '(3a, 3(i0, a))') 'plait_', name, ': rank ', rank, ': x has ', x%count, &
      ' elements, which are no block for each of ', ranks, ' ranks'
    call plait_refuse(trim(sentence), status)
  end function

  !> Of this rank among the ranks.
  subroutine place(comm, rank, ranks, problem)
    type(plait_comm), intent(in) :: comm
    integer, intent(out) :: rank, ranks, problem
    ranks = 1
    rank = plait_comm_rank(comm, problem)
    if (problem == PLAIT_SUCCESS) ranks = plait_comm_size(comm, problem)
  end subroutine

  subroutine all_reduce_arrays(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    if (.not. fits('all_reduce', comm, send, recv, .false., .false., count, status=status)) return
    call plait_all_reduce(comm, send%at, recv%at, count, send%type, op, stream, options, status)
  end subroutine

  subroutine reduce_scatter_arrays(comm, send, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    if (.not. fits('reduce_scatter', comm, send, recv, .true., .false., count, status=status)) return
    call plait_reduce_scatter(comm, send%at, recv%at, count, send%type, op, stream, options, status)
  end subroutine

  subroutine all_gather_arrays(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    if (.not. fits('all_gather', comm, send, recv, .false., .true., count, status=status)) return
    call plait_all_gather(comm, send%at, recv%at, count, send%type, stream, options, status)
  end subroutine

  subroutine broadcast_arrays(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    if (.not. fits('broadcast', comm, send, recv, .false., .false., count, send_root=root, status=status)) return
    call plait_broadcast(comm, send%at, recv%at, count, send%type, root, stream, options, status)
  end subroutine

  subroutine reduce_arrays(comm, send, recv, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    if (.not. fits('reduce', comm, send, recv, .false., .false., count, recv_root=root, status=status)) return
    call plait_reduce(comm, send%at, recv%at, count, send%type, op, root, stream, options, status)
  end subroutine

  subroutine all_to_all_arrays(comm, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    if (.not. fits('all_to_all', comm, send, recv, .true., .true., count, status=status)) return
    call plait_all_to_all(comm, send%at, recv%at, count, send%type, stream, options, status)
  end subroutine

  subroutine gather_arrays(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    if (.not. fits('gather', comm, send, recv, .false., .true., count, recv_root=root, status=status)) return
    call plait_gather(comm, send%at, recv%at, count, send%type, root, stream, options, status)
  end subroutine

  subroutine scatter_arrays(comm, send, recv, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    if (.not. fits('scatter', comm, send, recv, .true., .false., count, send_root=root, status=status)) return
    call plait_scatter(comm, send%at, recv%at, count, send%type, root, stream, options, status)
  end subroutine

  subroutine reduce_scatter_array(comm, x, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    type(c_ptr) :: own
    if (.not. is_cut('reduce_scatter', comm, x, count, own, status=status)) return
    call plait_reduce_scatter(comm, x%at, own, count, x%type, op, stream, options, status)
  end subroutine

  subroutine all_gather_array(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    type(c_ptr) :: own
    if (.not. is_cut('all_gather', comm, x, count, own, status=status)) return
    call plait_all_gather(comm, own, x%at, count, x%type, stream, options, status)
  end subroutine

  subroutine all_to_all_array(comm, x, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    type(c_ptr) :: own
    if (.not. is_cut('all_to_all', comm, x, count, own, status=status)) return
    call plait_all_to_all(comm, x%at, x%at, count, x%type, stream, options, status)
  end subroutine

  subroutine gather_array(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    type(c_ptr) :: own
    if (.not. is_cut('gather', comm, x, count, own, root, status=status)) return
    call plait_gather(comm, own, x%at, count, x%type, root, stream, options, status)
  end subroutine

  subroutine scatter_array(comm, x, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    integer(c_size_t) :: count
    type(c_ptr) :: own
    if (.not. is_cut('scatter', comm, x, count, own, root, status=status)) return
    call plait_scatter(comm, x%at, own, count, x%type, root, stream, options, status)
  end subroutine

  !> Whether all blocks lie within the array; if not, they are refused.
  logical function holds(comm, array, counts, displacements, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: array
    integer(c_size_t), intent(in) :: counts(:), displacements(:)
    integer, intent(out), optional :: status
    integer :: rank, problem, peer
    character(200) :: sentence
    holds = .true.
    if (size(counts) /= size(displacements)) return  ! which the call itself refuses, as it does a dead communicator
    rank = plait_comm_rank(comm, problem)
    if (problem /= PLAIT_SUCCESS) return
    do peer = 1, size(counts)
      associate (count => counts(peer), at => displacements(peer))
        holds = count == 0 .or. (count > 0 .and. at >= 0 .and. at <= array%count - count)
        if (holds) cycle
        write (sentence, '(a, i0, 3a, 4(i0, a))') 'plait_all_to_all_v: rank ', rank, ': ', trim(array%name), &
          ' has ', array%count, ' elements, and the block of rank ', peer - 1, ' is ', count, ' from element ', at, ' on'
        call plait_refuse(trim(sentence), status)
        return
      end associate
    end do
  end function

  subroutine send_array(comm, data, to, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: data
    integer, intent(in) :: to
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    if (.not. is_whole('send', comm, data, status)) return
    call plait_send(comm, data%at, data%count, data%type, to, stream, options, status)
  end subroutine

  subroutine recv_array(comm, data, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: data
    integer, intent(in) :: from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    if (.not. is_whole('recv', comm, data, status)) return
    call plait_recv(comm, data%at, data%count, data%type, from, stream, options, status)
  end subroutine

  subroutine send_recv_arrays(comm, send, to, recv, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: to, from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    if (.not. is_whole('send_recv', comm, send, status)) return
    if (.not. is_whole('send_recv', comm, recv, status)) return
    call plait_send_recv(comm, send%at, send%count, to, recv%at, recv%count, from, send%type, stream, options, status)
  end subroutine

  subroutine all_to_all_v_arrays(comm, send, send_counts, send_displacements, recv, recv_counts, recv_displacements, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:), recv_counts(:), recv_displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    if (.not. is_whole('all_to_all_v', comm, send, status)) return
    if (.not. is_whole('all_to_all_v', comm, recv, status)) return
    if (.not. holds(comm, send, send_counts, send_displacements, status)) return
    if (.not. holds(comm, recv, recv_counts, recv_displacements, status)) return
    call plait_all_to_all_v(comm, send%at, send_counts, send_displacements, recv%at, recv_counts, recv_displacements, send%type, &
      stream, options, status)
  end subroutine
end module plait_arrays
