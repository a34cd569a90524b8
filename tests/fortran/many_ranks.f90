! A tensor of columns on some ranks becomes one of rows on others; an error of one rank is one of all.
! By `use mpi`.  usage: fortran_many_ranks DIRECTORY
program many_ranks
  use, intrinsic :: iso_fortran_env
  use mpi
  use cairn
  use cairn_mpi
  implicit none
  integer, parameter :: nx = 7, ny = 11
  type(cairn_group) :: group
  type(cairn_manager) :: manager
  type(cairn_state) :: state
  integer, allocatable, target :: columns(:, :), rows(:, :)
  integer(int64), target :: step
  integer(int64) :: found
  integer :: rank, ranks, first, mine, i, j, stat, failed, some, code
  character(len=300) :: text
  character(len=512) :: directory

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, directory)
  call cairn_group_mpi(group, MPI_COMM_WORLD)
  if (group%rank() /= rank .or. group%size() /= ranks) error stop "another group"

  first = rank*ny/ranks
  mine = (rank + 1)*ny/ranks - first
  allocate (columns(0:nx + 1, 0:mine + 1), source=-1)
  do j = 1, mine
    do i = 1, nx
      columns(i, j) = 1000*i + first + j
    end do
  end do
  step = 4
  call state%add("step", step)
  call state%add("a", columns(1:nx, 1:mine), [nx, ny], [1, first + 1])
  call manager%open(group, directory)
  if (ranks > 1) then  ! one rank says that the tensor has another shape
    call state%clear()
    call state%add("a", columns(1:nx, 1:mine), [nx, merge(ny + 1, ny, rank == 1)], [1, first + 1])
    text = ""
    call manager%save(step, state, stat, text)
    call MPI_Allreduce(stat, failed, 1, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, code)
    if (failed /= stat .or. stat /= cairn_disagreement) error stop "not the error of all ranks"
    if (index(text, "'a'") == 0) error stop "an error without the key"
    call state%clear()
    call state%add("step", step)
    call state%add("a", columns(1:nx, 1:mine), [nx, ny], [1, first + 1])
  end if
  call manager%save(step, state)
  call manager%close()
  call group%free()
  call state%clear()

  ! The first half of the ranks, each with some rows.
  call MPI_Comm_split(MPI_COMM_WORLD, merge(1, MPI_UNDEFINED, rank < (ranks + 1)/2), rank, some, code)
  if (some /= MPI_COMM_NULL) then
    call cairn_group_mpi(group, some)
    first = rank*nx/group%size()
    mine = (rank + 1)*nx/group%size() - first
    allocate (rows(mine, ny), source=0)
    call state%add("step", step)
    call state%add("a", rows, [nx, ny], [first + 1, 1])
    call manager%open(group, directory)
    call manager%restore_latest(state, found)
    if (found /= 4 .or. step /= 4) error stop "another step"
    do j = 1, ny
      do i = 1, mine
        if (rows(i, j) /= 1000*(first + i) + j) error stop "another value"
      end do
    end do
    call manager%close()
    call group%free()
    call MPI_Comm_free(some, code)
  end if
  call MPI_Barrier(MPI_COMM_WORLD, code)
  if (rank == 0) print '(a)', "the Fortran face works on many ranks"
  call MPI_Finalize(code)
end program
