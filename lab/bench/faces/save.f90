! One contestant of scripts/bench --faces: the same saves in Fortran. See save.c.
program save
  use, intrinsic :: iso_fortran_env
  use mpi
  use cairn
  use cairn_mpi
  implicit none
  type(cairn_group) :: group
  type(cairn_options) :: options
  type(cairn_manager) :: manager
  type(cairn_state) :: state
  real(real64), allocatable, target :: u(:)
  real(real64) :: seconds, slowest
  integer(int64) :: mine, first, i, step
  integer :: rank, ranks, code, go, status
  character(len=4096) :: directory, bytes, line
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, directory)
  call get_command_argument(2, bytes)
  read (bytes, *) mine
  mine = mine/8
  first = mine*rank
  allocate (u(mine))
  do i = 1, mine
    u(i) = real(first + i - 1, real64)
  end do
  call cairn_group_mpi(group, MPI_COMM_WORLD)
  call options%set("keep.last", 1)
  call options%set("write.skip_unchanged", "off")
  call manager%open(group, trim(directory)//"/run", options)
  call state%add("u", u, [mine*ranks], [first + 1])
  write (line, '(2a, i0)') trim(directory), "/go.", rank
  open (newunit=go, file=trim(line), action="read", access="stream", form="formatted")
  step = 0
  do
    read (go, '(a)', iostat=status) line
    if (status /= 0 .or. line == "end") exit
    call MPI_Barrier(MPI_COMM_WORLD, code)
    seconds = MPI_Wtime()
    step = step + 1
    call manager%save(step, state)
    seconds = MPI_Wtime() - seconds
    call MPI_Reduce(seconds, slowest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD, code)
    if (rank == 0) print '(f0.9)', slowest
    flush (output_unit)
  end do
  call manager%close()
  call group%free()
  call MPI_Finalize(code)
end program
