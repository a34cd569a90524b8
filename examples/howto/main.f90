!> Ten things that people do with Cairn, as the pages of docs/howto show them.
!> usage: mpirun -np N howto_fortran DIRECTORY bundle|hdf5     (again and again, with any N)
module howto
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_ptr
  use cairn
  use cairn_mpi
  use mpi_f08
  implicit none
  integer, parameter :: nx = 4, ny = 12  ! of a plate: the tensor [ny, nx] of the checkpoint
  integer :: rank, ranks
  type(cairn_group) :: group  ! call cairn_group_mpi(group, MPI_COMM_WORLD) made it

contains

  integer function first_column(of)
    integer, intent(in) :: of
    first_column = ny*of/ranks
  end function

  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (right) return
    print '(2a)', "howto_fortran: ", what
    error stop 1
  end subroutine

  subroutine fill(u, first)
    real(real64), intent(out) :: u(:, :)
    integer, intent(in) :: first
    integer :: x, y
    do y = 1, size(u, 2)
      do x = 1, nx
        u(x, y) = nx*(first + y - 1) + x - 1
      end do
    end do
  end subroutine

  subroutine save_columns(directory, step)
    character(len=*), intent(in) :: directory
    integer(int64), intent(inout), target :: step
    real(real64), allocatable, target :: u(:, :)
    integer :: first, columns
    type(cairn_state) :: state
    type(cairn_options) :: options
    type(cairn_manager) :: manager
    first = first_column(rank)  ! columns before those of this rank
    columns = first_column(rank + 1) - first
    allocate (u(nx, columns))
    call fill(u, first)

    call state%add("step", step)  ! the same on every rank
    call state%add("u", u, [nx, ny], [1, first + 1])

    call options%set("keep.last", 3)
    call manager%open(group, directory, options)
    call manager%save(step, state)  ! durable on return; an error ends the program without stat=
  end subroutine

  subroutine restore_columns(directory, step)
    character(len=*), intent(in) :: directory
    integer(int64), intent(out), target :: step
    real(real64), allocatable, target :: u(:, :)
    real(real64), allocatable :: expected(:, :)
    integer(int64) :: restored
    integer :: first, columns
    type(cairn_state) :: state
    type(cairn_manager) :: manager
    first = first_column(rank)
    columns = first_column(rank + 1) - first
    step = 0

    allocate (u(nx, columns))
    call state%add("step", step)
    call state%add("u", u, [nx, ny], [1, first + 1])

    call manager%open(group, directory)
    call manager%restore_latest(state, restored)  ! -1: nothing there, which is not an error
    if (restored >= 0 .and. rank == 0) print '(a, i0)', "goes on after step ", restored

    if (restored < 0) return
    allocate (expected, mold=u)
    call fill(expected, first)
    call check(restored == step .and. .not. any(abs(u - expected) > 0), "another column was restored")
  end subroutine

  subroutine asynchronous_saves(directory)
    character(len=*), intent(in) :: directory
    real(real64), target :: u(1000)
    integer :: step
    type(cairn_step), allocatable :: list(:)
    type(cairn_state) :: state
    type(cairn_options) :: options
    type(cairn_manager) :: manager
    u = 0
    call state%add("u", u, [1000*ranks], [1000*rank + 1])

    call options%set("when.interval.steps", 5)
    call manager%open(group, directory, options)
    do step = 1, 20
      u = u + 1  ! u may be changed while its copy is written
      if (manager%should_save(step)) call manager%save_async(step, state)
    end do
    call manager%wait()  ! what is in flight is committed before the job ends

    call manager%steps(list)
    call check(list(size(list))%step == 20, "the last step is not there")
  end subroutine

  subroutine halos(directory)
    character(len=*), intent(in) :: directory
    real(real64), allocatable, target :: u(:, :)
    integer :: first, columns
    type(cairn_state) :: state
    type(cairn_manager) :: manager
    first = first_column(rank)
    columns = first_column(rank + 1) - first

    allocate (u(0:nx + 1, 0:columns + 1), source=0.0_real64)  ! one halo cell on each side
    call state%add("u", u(1:nx, 1:columns), [nx, ny], [1, first + 1])  ! no copy

    call manager%open(group, directory)
    call manager%save(1, state)
  end subroutine

  subroutine particles(directory, total)
    character(len=*), intent(in) :: directory
    integer(int64), intent(in) :: total
    real(real64), pointer :: p(:, :)
    type(cairn_rows), target :: position
    type(cairn_state) :: state
    type(cairn_manager) :: manager

    call position%init(0.0_real64, [3])  ! a particle has a position of three numbers
    if (rank == 0) call position%resize(total)
    call position%get(p)  ! p(:, i) is particle i of this rank
    p = 0
    call state%add_rows("position", position)
    call manager%open(group, directory)
    call manager%save(1, state)
    call manager%restore(1, state)  ! dealt evenly, on any number of ranks
    call position%get(p)  ! again: a restore resizes

    call check(abs(size(p, 2) - total/ranks) <= 1, "particles are not dealt evenly")
  end subroutine

  subroutine look(prefix)
    character(len=*), intent(in) :: prefix
    real(real64), target :: columns(nx, 3)

    call cairn_read(prefix, "u", columns, [1, 3])  ! columns 3, 4 and 5
  end subroutine

  subroutine convert(directory, form)
    character(len=*), intent(in) :: directory, form
    real(real64), target :: u(nx, ny)
    integer(int64) :: step
    type(cairn_state) :: state
    type(cairn_options) :: options
    type(cairn_manager) :: manager
    call state%add("u", u)

    call options%set("store.format", form)  ! "hdf5": of what is saved from now on
    call manager%open(group, directory, options)
    call manager%restore_latest(state, step)  ! both formats are restored
    call manager%save(step + 1, state)
  end subroutine

  subroutine under_slurm(directory, exit_code)
    character(len=*), intent(in) :: directory
    integer, intent(out) :: exit_code
    integer, target :: step
    type(cairn_stop) :: stop_request
    type(cairn_state) :: state
    type(cairn_options) :: options
    type(cairn_manager) :: manager
    step = 0
    call state%add("step", step)

    call stop_request%init()  ! SIGTERM, SIGUSR1, the job's time limit
    call options%set("when.interval.steps", 1000)
    call options%use_stop(stop_request)
    call manager%open(group, directory, options)
    call manager%restore_latest(state)
    exit_code = 0
    do while (step < 100000)
      step = step + 1
      if (step == 3) call stop_request%request()  ! here in place of a signal
      if (manager%should_save(step)) call manager%save(step, state)  ! also before a stop
      if (manager%should_stop(exit_code=exit_code)) exit
    end do
  end subroutine

  subroutine policies(directory)
    character(len=*), intent(in) :: directory
    real(real32), target :: a(1000), b(1000)
    type(cairn_state) :: state
    type(cairn_options) :: options
    type(cairn_manager) :: manager
    interface  ! of cairn/c/options.h
      function max_shard_size(options, bytes) bind(c, name="cairn_options_max_shard_size") result(code)
        import c_ptr, c_int, c_int64_t
        type(c_ptr), value :: options
        integer(c_int64_t), value :: bytes
        integer(c_int) :: code
      end function
    end interface
    a = 0
    b = 0
    call state%add("a", a, [1000*ranks], [1000*rank + 1])
    call state%add("b", b, [1000*ranks], [1000*rank + 1])

    call options%set("keep.last", 3)  ! a first option makes the handle
    call check(max_shard_size(options%handle, 3000_c_int64_t) == cairn_ok, "no policy")  ! bytes a file
    call manager%open(group, directory, options)
    call manager%save(1, state)
  end subroutine

  subroutine errors(directory)
    character(len=*), intent(in) :: directory
    integer, target :: step
    integer :: stat
    character(len=:), allocatable :: problem, way_out
    type(cairn_state) :: state
    type(cairn_manager) :: manager
    step = 0
    call state%add("step", step)
    call manager%open(group, directory)

    call manager%restore(77, state, stat=stat)
    if (stat == cairn_not_found .and. rank == 0) then  ! the same on all ranks
      call cairn_last_error(problem=problem, way_out=way_out)
      print '(a)', problem, way_out
    end if

    call check(stat == cairn_not_found, "another error")
  end subroutine

end module

program main
  use howto
  implicit none
  integer(int64), target :: step
  integer :: exit_code
  character(len=800) :: directory, form
  character(len=20) :: number
  character(len=:), allocatable :: own

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  if (command_argument_count() /= 2) error stop "usage: howto_fortran DIRECTORY bundle|hdf5"
  call get_command_argument(1, directory)
  call get_command_argument(2, form)
  call cairn_group_mpi(group, MPI_COMM_WORLD)
  call restore_columns(trim(directory)//"/shared", step)
  step = step + 1
  call save_columns(trim(directory)//"/shared", step)
  write (number, '(i0)') step
  own = trim(directory)//"/fortran-"//trim(number)
  call asynchronous_saves(own//"/asynchronous")
  call halos(own//"/halos")
  call particles(own//"/particles", 10_int64)
  call look(own//"/halos/ckpt-1")
  call convert(own//"/halos", trim(form))
  call under_slurm(own//"/slurm", exit_code)
  call check(exit_code == 76, "another exit code")
  call policies(own//"/policies")
  call errors(own//"/errors")
  call group%free()
  if (rank == 0) print '(a, i0)', "Fortran saved step ", step
  call MPI_Finalize()
end program
