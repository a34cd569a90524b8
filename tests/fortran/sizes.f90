! Arrays of more than 2^31 elements and 2^32 bytes, for scripts/campaign sizes.
! usage: fortran_sizes save|restore DIRECTORY BYTES [NAME=VALUE|async...]
! Two ranks and more: the last one has all but 4,000 bytes of the first. Says "acknowledged 1" or
! "restored 1" and "took SECONDS", or ends with an error. NAME=VALUE are options.
program sizes
  use, intrinsic :: iso_fortran_env
  use mpi
  use cairn
  use cairn_mpi
  implicit none
  integer(int64), parameter :: of_the_first = 4000
  integer(int64) :: bytes, first, mine, step, i, wrong, clock, clocks, began
  integer(int8), allocatable, target :: u(:)
  integer :: rank, ranks, code, word, equals
  character(len=512) :: what, directory, text
  logical :: asynchronous
  type(cairn_group) :: group
  type(cairn_options) :: options
  type(cairn_manager) :: manager
  type(cairn_state) :: state

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, what)
  call get_command_argument(2, directory)
  call get_command_argument(3, text)
  read (text, *) bytes
  call options%set("async.pool_bytes", 6*2_int64**30)
  asynchronous = .false.
  do word = 4, command_argument_count()
    call get_command_argument(word, text)
    equals = index(text, "=")
    asynchronous = asynchronous .or. text == "async"
    if (equals > 0) call options%set(text(:equals - 1), trim(text(equals + 1:)))
  end do

  first = min(rank, 1)*of_the_first + 1
  mine = merge(bytes - of_the_first, 0_int64, rank == ranks - 1)
  if (rank == 0) mine = of_the_first
  allocate (u(0:mine + 1))  ! with an element more at each end, which is not saved
  u = -1
  call cairn_group_mpi(group, MPI_COMM_WORLD)
  call manager%open(group, trim(directory), options)
  call state%add("bytes", u(1:mine), [bytes], [first])

  call system_clock(began, clocks)
  if (what == "save") then
    do i = 1, mine
      u(i) = value(first + i - 1)
    end do
    call system_clock(began)
    if (asynchronous) then
      call manager%save_async(1, state)
      u = 0
      call manager%wait()
    else
      call manager%save(1, state)
    end if
  else
    call manager%restore_latest(state, step)
    if (step /= 1) error stop "there is no checkpoint"
  end if
  call system_clock(clock)
  if (what /= "save") then
    wrong = count(u([0_int64, mine + 1]) /= -1)
    do i = 1, mine
      if (u(i) /= value(first + i - 1)) wrong = wrong + 1
    end do
    if (wrong > 0) then
      print '(a, i0, a)', "wrong ", wrong, " elements are not what was saved"
      call MPI_Abort(MPI_COMM_WORLD, 3, code)
    end if
  end if
  call MPI_Barrier(MPI_COMM_WORLD, code)
  if (rank == 0) print '(2a, f0.2)', merge("acknowledged 1", "restored 1    ", what == "save"), &
    new_line("a")//"took ", real(clock - began, real64)/real(clocks, real64)
  call manager%close()
  call MPI_Finalize(code)

contains

  !> Never -1, and another one 2^31 and 2^32 elements further on.
  pure integer(int8) function value(at)
    integer(int64), intent(in) :: at
    integer(int64) :: bits
    bits = ieor(at, shiftr(at, 7))
    bits = ieor(bits, shiftr(bits, 17))
    value = int(iand(ieor(bits, shiftr(bits, 29)), 127_int64), int8)
  end function
end program
