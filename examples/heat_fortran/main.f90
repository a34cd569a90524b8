!> Heat flows over a plate, and each rank has some of its columns. Whatever number of ranks starts it,
!> and however it ended before, it goes on from the newest checkpoint.  usage: heat DIRECTORY STEPS
module plate
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  implicit none
  integer, parameter :: nx = 60, ny = 48  ! of the plate

contains

  !> Copies the edge columns of the neighbours to the halos of this rank.
  subroutine exchange_halos(u, columns, rank, ranks)
    integer, intent(in) :: columns, rank, ranks
    real(real64), intent(inout) :: u(0:nx + 1, 0:columns + 1)
    integer :: below, above
    below = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    above = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
    call MPI_Sendrecv(u(:, 1), nx + 2, MPI_DOUBLE_PRECISION, below, 0, &
                      u(:, columns + 1), nx + 2, MPI_DOUBLE_PRECISION, above, 0, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(u(:, columns), nx + 2, MPI_DOUBLE_PRECISION, above, 1, &
                      u(:, 0), nx + 2, MPI_DOUBLE_PRECISION, below, 1, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine

  subroutine step_on(u, columns)
    integer, intent(in) :: columns
    real(real64), intent(inout) :: u(0:nx + 1, 0:columns + 1)
    real(real64) :: next(nx, columns)
    integer :: x, y
    do y = 1, columns
      do x = 1, nx
        next(x, y) = u(x, y) + 0.1_real64*(((u(x - 1, y) + u(x + 1, y)) + &
                                            (u(x, y - 1) + u(x, y + 1))) - 4*u(x, y))
      end do
    end do
    u(1:nx, 1:columns) = next
  end subroutine

end module

program heat
  use cairn
  use cairn_mpi
  use plate
  implicit none
  type(cairn_group) :: group
  type(cairn_options) :: options
  type(cairn_manager) :: manager
  type(cairn_state) :: state
  real(real64), allocatable, target :: u(:, :)
  integer(int64), target :: step
  integer(int64) :: steps, restored
  integer :: rank, ranks, first, columns, x, y
  character(len=1024) :: directory, number

  call MPI_Init()
  call get_command_argument(1, directory)
  call get_command_argument(2, number)
  if (command_argument_count() /= 2) error stop "usage: heat DIRECTORY STEPS"
  read (number, *) steps
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  first = rank*ny/ranks  ! the first column of this rank, from 0
  columns = (rank + 1)*ny/ranks - first
  step = 0
  allocate (u(0:nx + 1, 0:columns + 1), source=0.0_real64)  ! the edge stays cold
  do y = 1, columns
    do x = 1, nx
      u(x, y) = mod((first + y - 1)*7, 11) + mod((x - 1)*5, 13)
    end do
  end do

  call cairn_group_mpi(group, MPI_COMM_WORLD)
  call options%set("keep.last", 3)
  call options%set("when.interval.steps", 10)
  call manager%open(group, directory, options)
  call state%add("step", step)
  call state%add("u", u(1:nx, 1:columns), [nx, ny], [1, first + 1])  ! no halos, and no copy

  call manager%restore_latest(state, restored)
  if (rank == 0 .and. restored >= 0) print '(a, i0)', "restored step ", restored
  do while (step < steps)  ! a restore has set it
    call exchange_halos(u, columns, rank, ranks)
    call step_on(u, columns)
    step = step + 1
    if (.not. manager%should_save(step) .and. step < steps) cycle
    call manager%save(step, state)
    if (rank == 0) print '(a, i0)', "saved step ", step
    flush (6)
  end do
  call manager%close()
  call group%free()
  call MPI_Finalize()
end program
