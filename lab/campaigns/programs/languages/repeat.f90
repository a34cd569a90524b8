! A job in Fortran for scripts/campaign languages; what it does, and what its lines say, stands in repeat.c.
!   repeat_fortran DIRECTORY LAST blocking|async|hdf5
program repeat_fortran
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  use cairn
  use cairn_mpi
  implicit none
  integer, parameter :: nx = 60, ny = 48, most_turns = 5
  character(len=1000) :: directory, number, way, text
  integer :: rank, ranks, first, columns, code, turn, x, y
  integer(int64) :: step, last, restored
  real(real64), allocatable :: u(:, :)
  type(cairn_group) :: group
  type(cairn_options) :: options
  type(cairn_manager) :: manager
  type(cairn_state) :: state

  call MPI_Init()
  call get_command_argument(1, directory)
  call get_command_argument(2, number)
  call get_command_argument(3, way)
  read (number, *) last
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  first = rank*ny/ranks
  columns = (rank + 1)*ny/ranks - first
  allocate (u(nx, columns), source=0.0_real64)
  step = 0
  call cairn_group_mpi(group, MPI_COMM_WORLD)
  call options%set("keep.last", 2)
  if (way == "hdf5") call options%set("store.format", "hdf5")
  turn = 0
  do
    call manager%open(group, trim(directory), options, stat=code, errmsg=text)
    if (.not. failed()) exit
  end do
  call state%add("step", step)
  call state%add("u", u, [nx, ny], [1, first + 1])

  turn = 0
  do
    call manager%restore_latest(state, restored, stat=code, errmsg=text)
    if (.not. failed()) exit
  end do
  if (restored >= 0) then
    if (rank == 0) call tell("restored step ", restored)
    if (step /= restored) print '(a, i0, a)', "wrong ", rank, " step"
    if (any(u /= values(restored))) print '(a, i0, a)', "wrong ", rank, " values"
  end if
  do while (step < last)
    step = step + 10 - mod(step, 10_int64)
    turn = 0
    do
      u = values(step)
      if (way == "async") then
        call manager%save_async(step, state, stat=code, errmsg=text)
        u = 0  ! a copy is made
        if (code == 0) call manager%wait(stat=code, errmsg=text)
      else
        call manager%save(step, state, stat=code, errmsg=text)
      end if
      if (.not. failed()) exit
    end do
    if (rank == 0) call tell("saved step ", step)
  end do
  call manager%close()
  call group%free()
  call MPI_Barrier(MPI_COMM_WORLD)
  if (rank == 0) print '(a)', "done"
  print '(a, i0)', "over ", rank
  flush (6)
  call MPI_Finalize()

contains

  ! Whether to call again. A commit that is said to be there is not made again.
  logical function failed()
    failed = .false.
    if (code == 0) return
    print '(a, i0, a, i0, a, a)', "failed ", rank, " [", code, "] ", trim(text)
    flush (6)
    if (code == CAIRN_ALREADY_EXISTS .and. turn > 0) return
    turn = turn + 1
    if (turn == most_turns) call MPI_Abort(MPI_COMM_WORLD, 3)
    failed = .true.
  end function

  function values(of) result(made)
    integer(int64), intent(in) :: of
    real(real64) :: made(nx, columns)
    do y = 1, columns
      do x = 1, nx
        made(x, y) = real(of*10000 + (first + y - 1)*nx + x - 1, real64)
      end do
    end do
  end function

  subroutine tell(what, number)
    character(len=*), intent(in) :: what
    integer(int64), intent(in) :: number
    print '(a, i0)', what, number
    flush (6)
  end subroutine
end program
