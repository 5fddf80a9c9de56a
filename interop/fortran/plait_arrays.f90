! SPDX-License-Identifier: Apache-2.0
! The part of module plait's calls on Fortran's own arrays that does not depend on the type of the
! elements. plait_of_one_type.inc has the rest.
module plait_arrays
  use, intrinsic :: iso_c_binding
  use plait_base
  implicit none
  private

  !> An array's address and contents.
  type, public :: elements
    type(c_ptr) :: at
    integer(c_size_t) :: count  ! negative: an assumed-size array, which does not know its length
    logical :: contiguous
    integer :: type
    character(4) :: name  ! the argument's name
  end type

  !> The buffers of a collective: one block, or one per rank; on all ranks, or on the root alone.
  type, public :: blocks
    logical :: many_sent, many_received
    logical :: root_sends, root_receives
  end type

  public :: find, fits, fits_in_place
  public :: send_array, recv_array, send_recv_arrays, all_to_all_v_arrays
  public :: all_gather_v_arrays, gather_v_arrays, scatter_v_arrays, neighbor_all_to_all_v_arrays
  public :: all_gather_v_array, gather_v_array, scatter_v_array
  public :: reduce_scatter_v_arrays, reduce_scatter_v_array

contains

  !> A buffer's address, and the number of whole elements that fit in it; 0 after an error.
  subroutine find(buffer, type, at, count, status)
    type(plait_buffer), intent(in) :: buffer
    integer(c_int), intent(in) :: type
    type(c_ptr), intent(out) :: at
    integer(c_size_t), intent(out) :: count
    integer, intent(out), optional :: status
    count = plait_buffer_bytes(buffer, status) / plait_size_of(type)
    at = plait_buffer_pointer(buffer, status)
  end subroutine

  !> True if an array's elements lie one behind the other, and their number is known. Other arrays
  !> are refused.
  logical function is_whole(name, comm, array, status, to, from)
    character(*), intent(in) :: name
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: array
    integer, intent(out), optional :: status
    integer, intent(in), optional :: to(:), from(:)  ! as of plait_refuse_call
    integer :: rank, problem
    character(200) :: sentence
    is_whole = array%contiguous .and. array%count >= 0
    if (is_whole) return
    rank = plait_comm_rank(comm, problem)
    is_whole = problem /= PLAIT_SUCCESS  ! the call itself refuses the communicator
    if (is_whole) return
    write (sentence, '(3a, i0, 3a)') 'plait_', name, ': rank ', rank, ': ', trim(array%name), &
      ' is not contiguous, and a copy of it would be gone before the call is done'
    if (array%count < 0) write (sentence, '(3a, i0, 5a)') 'plait_', name, ': rank ', rank, ': ', &
      trim(array%name), ' is an assumed-size array, whose length is not known: pass a section ' // &
      'of it, like ', trim(array%name), '(1:n)'
    call plait_refuse_call(name, comm, trim(sentence), status, to, from)
  end function

  !> True if two arrays fit each other; `count` is then the elements of a block. Other arrays are
  !> refused. If only the root has an array, other ranks may pass anything.
  logical function fits(name, comm, send, recv, of, count, root, status)
    character(*), intent(in) :: name
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    type(blocks), intent(in) :: of
    integer(c_size_t), intent(out) :: count
    integer, intent(in), optional :: root
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
    if (present(root)) then
      sends = .not. of%root_sends .or. rank == root
      receives = .not. of%root_receives .or. rank == root
    end if
    if (sends) fits = is_whole(name, comm, send, status)
    if (fits .and. receives) fits = is_whole(name, comm, recv, status)
    if (.not. fits) return
    sent = send%count
    received = recv%count
    if (of%many_sent) sent = sent / ranks
    if (of%many_received) received = received / ranks
    count = merge(sent, received, sends)
    fits = .not. ((sends .and. receives .and. sent /= received) .or. &
                  (sends .and. of%many_sent .and. sent * ranks /= send%count) .or. &
                  (receives .and. of%many_received .and. received * ranks /= recv%count))
    if (fits) return
    write (sentence, '(3a, 4(i0, a))') 'plait_', name, ': rank ', rank, ': send has ', send%count, &
      ' elements and recv ', recv%count, ', which do not fit each other for ', ranks, ' ranks'
    call plait_refuse_call(name, comm, trim(sentence), status)
  end function

  !> The same for an array of a call in place, which is both buffers: `send` and `recv` are then
  !> their addresses. If one of them has a block per rank, the other is this rank's block of it, and
  !> an array that can't be cut into such blocks is refused. With a root, only the root's array is
  !> cut; the array of another rank is its block.
  logical function fits_in_place(name, comm, x, of, count, send, recv, root, status)
    character(*), intent(in) :: name
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    type(blocks), intent(in) :: of
    integer(c_size_t), intent(out) :: count
    type(c_ptr), intent(out) :: send, recv
    integer, intent(in), optional :: root
    integer, intent(out), optional :: status
    integer :: rank, ranks, problem
    type(c_ptr) :: own
    character(200) :: sentence
    count = 0
    send = x%at
    recv = x%at
    fits_in_place = .true.
    call place(comm, rank, ranks, problem)
    if (problem /= PLAIT_SUCCESS) return  ! the call itself refuses the communicator
    fits_in_place = is_whole(name, comm, x, status)
    if (.not. fits_in_place) return
    count = x%count
    if (.not. (of%many_sent .or. of%many_received)) return
    if (present(root)) then
      if (rank /= root) return
    end if
    count = x%count / ranks
    fits_in_place = count * ranks == x%count
    if (fits_in_place) then
      own = transfer(transfer(x%at, 0_c_intptr_t) + rank * count * plait_size_of(x%type), own)
      if (.not. of%many_sent) send = own
      if (.not. of%many_received) recv = own
      return
    end if
    write (sentence, '(3a, 3(i0, a))') 'plait_', name, ': rank ', rank, ': x has ', x%count, &
      ' elements, which are no block for each of ', ranks, ' ranks'
    call plait_refuse_call(name, comm, trim(sentence), status)
  end function

  !> This rank, and the number of ranks.
  subroutine place(comm, rank, ranks, problem)
    type(plait_comm), intent(in) :: comm
    integer, intent(out) :: rank, ranks, problem
    ranks = 1
    rank = plait_comm_rank(comm, problem)
    if (problem == PLAIT_SUCCESS) ranks = plait_comm_size(comm, problem)
  end subroutine

  !> True if all blocks lie within the array. Others are refused. `peers`: whose blocks they are, if
  !> not one for each rank.
  logical function holds(name, comm, array, counts, displacements, peers, status, to, from)
    character(*), intent(in) :: name
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: array
    integer(c_size_t), intent(in) :: counts(:), displacements(:)
    integer, intent(in), optional :: peers(:)
    integer, intent(out), optional :: status
    integer, intent(in), optional :: to(:), from(:)
    integer :: rank, problem, i, peer
    character(200) :: sentence
    holds = .true.
    ! The call itself refuses unequal sizes and a dead communicator.
    if (size(counts) /= size(displacements)) return
    rank = plait_comm_rank(comm, problem)
    if (problem /= PLAIT_SUCCESS) return
    if (present(peers)) then
      if (size(peers) /= size(counts)) return
    end if
    do i = 1, size(counts)
      peer = i - 1
      if (present(peers)) peer = peers(i)
      if (peer == PLAIT_PROC_NULL) cycle
      associate (count => counts(i), at => displacements(i))
        holds = count == 0 .or. (count > 0 .and. at >= 0 .and. at <= array%count - count)
        if (holds) cycle
        write (sentence, '(3a, i0, 3a, 4(i0, a))') 'plait_', name, ': rank ', rank, ': ', &
          trim(array%name), ' has ', array%count, ' elements, and the block of rank ', peer, &
          ' is ', count, ' from element ', at, ' on'
        call plait_refuse_call(name, comm, trim(sentence), status, to, from)
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
    if (.not. is_whole('send', comm, data, status, to=[to])) return
    call plait_send(comm, data%at, data%count, data%type, to, stream, options, status)
  end subroutine

  subroutine recv_array(comm, data, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: data
    integer, intent(in) :: from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    if (.not. is_whole('recv', comm, data, status, from=[from])) return
    call plait_recv(comm, data%at, data%count, data%type, from, stream, options, status)
  end subroutine

  subroutine send_recv_arrays(comm, send, to, recv, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: to, from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    if (.not. is_whole('send_recv', comm, send, status, [to], [from])) return
    if (.not. is_whole('send_recv', comm, recv, status, [to], [from])) return
    call plait_send_recv(comm, send%at, send%count, to, recv%at, recv%count, from, send%type, &
      stream, options, status)
  end subroutine

  subroutine all_to_all_v_arrays(comm, send, send_counts, send_displacements, recv, recv_counts, &
    recv_displacements, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:), recv_counts(:), &
      recv_displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    if (.not. is_whole('all_to_all_v', comm, send, status)) return
    if (.not. is_whole('all_to_all_v', comm, recv, status)) return
    if (.not. holds('all_to_all_v', comm, send, send_counts, send_displacements, &
      status=status)) return
    if (.not. holds('all_to_all_v', comm, recv, recv_counts, recv_displacements, &
      status=status)) return
    call plait_all_to_all_v(comm, send%at, send_counts, send_displacements, recv%at, recv_counts, &
      recv_displacements, send%type, stream, options, status)
  end subroutine

  subroutine all_gather_v_arrays(comm, send, recv, recv_counts, recv_displacements, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: recv_counts(:), recv_displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    character(*), parameter :: name = 'all_gather_v'
    if (.not. is_whole(name, comm, send, status)) return
    if (.not. is_whole(name, comm, recv, status)) return
    if (.not. holds(name, comm, recv, recv_counts, recv_displacements, status=status)) return
    call plait_all_gather_v(comm, send%at, send%count, recv%at, recv_counts, recv_displacements, &
      send%type, stream, options, status)
  end subroutine

  !> Only the root's `recv` is looked at.
  subroutine gather_v_arrays(comm, send, recv, recv_counts, recv_displacements, root, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: recv_counts(:), recv_displacements(:)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    character(*), parameter :: name = 'gather_v'
    if (.not. is_whole(name, comm, send, status)) return
    if (is_root(comm, root)) then
      if (.not. is_whole(name, comm, recv, status)) return
      if (.not. holds(name, comm, recv, recv_counts, recv_displacements, status=status)) return
    end if
    call plait_gather_v(comm, send%at, send%count, recv%at, recv_counts, recv_displacements, &
      send%type, root, stream, options, status)
  end subroutine

  !> Only the root's `send` is looked at.
  subroutine scatter_v_arrays(comm, send, send_counts, send_displacements, recv, root, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    character(*), parameter :: name = 'scatter_v'
    if (.not. is_whole(name, comm, recv, status)) return
    if (is_root(comm, root)) then
      if (.not. is_whole(name, comm, send, status)) return
      if (.not. holds(name, comm, send, send_counts, send_displacements, status=status)) return
    end if
    call plait_scatter_v(comm, send%at, send_counts, send_displacements, recv%at, recv%count, &
      recv%type, root, stream, options, status)
  end subroutine

  subroutine neighbor_all_to_all_v_arrays(comm, send, send_peers, send_counts, &
    send_displacements, recv, recv_peers, recv_counts, recv_displacements, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer, intent(in) :: send_peers(:), recv_peers(:)
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:), recv_counts(:), &
      recv_displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    character(*), parameter :: name = 'neighbor_all_to_all_v'
    if (.not. is_whole(name, comm, send, status, send_peers, recv_peers)) return
    if (.not. is_whole(name, comm, recv, status, send_peers, recv_peers)) return
    if (.not. holds(name, comm, send, send_counts, send_displacements, send_peers, status, &
      send_peers, recv_peers)) return
    if (.not. holds(name, comm, recv, recv_counts, recv_displacements, recv_peers, status, &
      send_peers, recv_peers)) return
    call plait_neighbor_all_to_all_v(comm, send%at, send_peers, send_counts, send_displacements, &
      recv%at, recv_peers, recv_counts, recv_displacements, send%type, stream, options, status)
  end subroutine

  ! In place: `x` has the blocks of all ranks, or on a rank that is not the root its own alone.

  subroutine all_gather_v_array(comm, x, counts, displacements, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer(c_size_t), intent(in) :: counts(:), displacements(:)
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(elements) :: own
    if (.not. find_own('all_gather_v', comm, x, counts, displacements, own, status)) return
    call plait_all_gather_v(comm, own%at, own%count, x%at, counts, displacements, x%type, stream, &
      options, status)
  end subroutine

  subroutine gather_v_array(comm, x, counts, displacements, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer(c_size_t), intent(in) :: counts(:), displacements(:)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(elements) :: own
    own = x
    if (is_root(comm, root)) then
      if (.not. find_own('gather_v', comm, x, counts, displacements, own, status)) return
    else
      if (.not. is_whole('gather_v', comm, x, status)) return
    end if
    call plait_gather_v(comm, own%at, own%count, x%at, counts, displacements, x%type, root, &
      stream, options, status)
  end subroutine

  subroutine scatter_v_array(comm, x, counts, displacements, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer(c_size_t), intent(in) :: counts(:), displacements(:)
    integer, intent(in) :: root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(elements) :: own
    own = x
    if (is_root(comm, root)) then
      if (.not. find_own('scatter_v', comm, x, counts, displacements, own, status)) return
    else
      if (.not. is_whole('scatter_v', comm, x, status)) return
    end if
    call plait_scatter_v(comm, x%at, counts, displacements, own%at, own%count, x%type, root, &
      stream, options, status)
  end subroutine

  subroutine reduce_scatter_v_arrays(comm, send, counts, recv, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: counts(:)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    character(*), parameter :: name = 'reduce_scatter_v'
    integer :: rank, ranks, problem
    if (.not. is_whole(name, comm, send, status)) return
    if (.not. is_whole(name, comm, recv, status)) return
    call place(comm, rank, ranks, problem)
    ! The call itself refuses a dead communicator, and another number of counts.
    if (problem == PLAIT_SUCCESS .and. size(counts) == ranks) then
      if (.not. has(name, comm, send, sum(counts), 'the counts add up to ', status)) return
      if (.not. has(name, comm, recv, counts(rank + 1), 'its count is ', status)) return
    end if
    call plait_reduce_scatter_v(comm, send%at, counts, recv%at, send%type, op, stream, options, &
      status)
  end subroutine

  !> In place: `x` has the blocks of all ranks, and the result is this rank's.
  subroutine reduce_scatter_v_array(comm, x, counts, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer(c_size_t), intent(in) :: counts(:)
    integer, intent(in) :: op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    character(*), parameter :: name = 'reduce_scatter_v'
    integer :: rank, ranks, problem
    type(c_ptr) :: own
    if (.not. is_whole(name, comm, x, status)) return
    own = x%at
    call place(comm, rank, ranks, problem)
    if (problem == PLAIT_SUCCESS .and. size(counts) == ranks) then
      if (.not. has(name, comm, x, sum(counts), 'the counts add up to ', status)) return
      own = transfer(transfer(x%at, 0_c_intptr_t) + sum(counts(:rank)) * plait_size_of(x%type), own)
    end if
    call plait_reduce_scatter_v(comm, x%at, counts, own, x%type, op, stream, options, status)
  end subroutine

  !> True if an array has as many elements as the counts say. Others are refused.
  logical function has(name, comm, array, wanted, because, status)
    character(*), intent(in) :: name, because
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: array
    integer(c_size_t), intent(in) :: wanted
    integer, intent(out), optional :: status
    character(200) :: sentence
    has = array%count == wanted
    if (has) return
    write (sentence, '(3a, i0, 3a, 2(i0, 2a))') 'plait_', name, ': rank ', plait_comm_rank(comm), &
      ': ', &
      trim(array%name), ' has ', array%count, ' elements, and ', because, wanted
    call plait_refuse_call(name, comm, trim(sentence), status)
  end function

  !> False on all ranks of a dead communicator, which the call itself refuses.
  logical function is_root(comm, root)
    type(plait_comm), intent(in) :: comm
    integer, intent(in) :: root
    integer :: rank, problem
    rank = plait_comm_rank(comm, problem)
    is_root = problem == PLAIT_SUCCESS .and. rank == root
  end function

  !> Finds this rank's block in an array with those of all ranks. False: the array or the blocks
  !> were refused.
  logical function find_own(name, comm, x, counts, displacements, own, status)
    character(*), intent(in) :: name
    type(plait_comm), intent(in) :: comm
    type(elements), intent(in) :: x
    integer(c_size_t), intent(in) :: counts(:), displacements(:)
    type(elements), intent(out) :: own
    integer, intent(out), optional :: status
    integer :: rank, problem
    own = x
    rank = plait_comm_rank(comm, problem)
    find_own = problem /= PLAIT_SUCCESS  ! the call itself refuses the communicator
    if (find_own) return
    find_own = is_whole(name, comm, x, status)
    if (find_own) find_own = are_one_each(name, comm, 'x', counts, displacements, status=status)
    if (find_own) find_own = holds(name, comm, x, counts, displacements, status=status)
    if (.not. find_own) return
    own%count = counts(rank + 1)
    if (own%count == 0) return
    own%at = transfer(transfer(x%at, 0_c_intptr_t) + &
                      displacements(rank + 1) * plait_size_of(x%type), own%at)
  end function
end module plait_arrays
