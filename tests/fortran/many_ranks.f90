! In each way to save of tests/support/combinations.txt: a tensor of columns on some ranks becomes one of
! rows on others, and so do the tensors of tests/support/tensors.txt, those too that a program in C has
! left; an error of one rank is one of all. By `use mpi`.
! usage: fortran_many_ranks DIRECTORY TABLES with|without (libhdf5) [LEFT [NAME,NAME...: these ways only]]
module ways_to_save
  use, intrinsic :: iso_fortran_env
  implicit none
  type :: way
    character(len=40) :: name = "", needs = "", how = ""
    character(len=80) :: options(8) = ""
  end type
contains
  !> Reads the next way from the file; false at its end.
  logical function next_way(unit, one)
    integer, intent(in) :: unit
    type(way), intent(out) :: one
    character(len=600) :: line
    integer :: status
    do
      read (unit, '(a)', iostat=status) line
      next_way = status == 0
      if (.not. next_way) return
      if (line == "" .or. line(1:1) == "#") cycle
      read (line, *, iostat=status) one%name, one%needs, one%how, one%options  ! as many as there are
      return
    end do
  end function
end module

program many_ranks
  use mpi
  use cairn
  use cairn_mpi
  use ways_to_save
  use tensor_table
  implicit none
  integer, parameter :: nx = 7, ny = 11
  type(way) :: one
  integer :: rank, ranks, code, unit, count, half
  character(len=512) :: directory, tables, hdf5, left, only

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, directory)
  call get_command_argument(2, tables)
  call get_command_argument(3, hdf5)
  call get_command_argument(4, left)
  call get_command_argument(5, only)
  call MPI_Comm_split(MPI_COMM_WORLD, merge(1, MPI_UNDEFINED, rank < (ranks + 1)/2), rank, half, code)
  open (newunit=unit, file=trim(tables)//"/combinations.txt", action="read")
  count = 0
  do while (next_way(unit, one))
    if (index(one%needs, "libhdf5") > 0 .and. hdf5 /= "with") cycle
    if (only /= "" .and. index(","//trim(only)//",", ","//trim(one%name)//",") == 0) cycle
    call save_columns(trim(directory)//"/columns-"//one%name)
    call restore_rows(trim(directory)//"/columns-"//one%name)
    call save_tensors(trim(directory)//"/"//one%name)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    if (half /= MPI_COMM_NULL) call restore_tensors(half, trim(directory)//"/"//one%name)
    call restore_tensors(MPI_COMM_WORLD, trim(directory)//"/"//one%name)
    if (half /= MPI_COMM_NULL .and. left /= "") call restore_tensors(half, trim(left)//"/"//one%name)
    call MPI_Barrier(MPI_COMM_WORLD, code)
    count = count + 1
  end do
  if (only == "" .and. count < 6) error stop "ways to save are missing"
  if (rank == 0) print '(a, i0, a)', "the Fortran face works on many ranks in ", count, " ways"
  call MPI_Finalize(code)

contains

  subroutine set_options(options)
    type(cairn_options), intent(inout) :: options
    integer :: i, equals
    call options%set("write.chunk_bytes", 4096)
    do i = 1, size(one%options)
      equals = index(one%options(i), "=")
      if (equals > 0) call options%set(one%options(i)(:equals - 1), trim(one%options(i)(equals + 1:)))
    end do
  end subroutine

  subroutine save_tensors(to)
    character(len=*), intent(in) :: to
    type(cairn_group) :: group
    type(cairn_options) :: options
    type(cairn_manager) :: manager
    type(table), allocatable, target :: tensors
    allocate (tensors)
    call cairn_group_mpi(group, MPI_COMM_WORLD)
    call set_options(options)
    call manager%open(group, to, options)
    call make_saved(tensors, trim(tables)//"/tensors.txt", rank, ranks, 4)
    if (one%how == "async") then
      call manager%save_async(4, tensors%state)
      deallocate (tensors)  ! the copy is made
      call manager%wait()
    else
      call manager%save(4, tensors%state)
    end if
    call manager%close()
  end subroutine

  subroutine restore_tensors(communicator, from)
    integer, intent(in) :: communicator
    character(len=*), intent(in) :: from
    type(cairn_group) :: group
    type(cairn_options) :: options
    type(cairn_manager) :: manager
    type(table), allocatable, target :: tensors
    integer(int64) :: found
    integer, allocatable :: before(:)
    integer :: rows, number, which, below
    allocate (tensors)
    call cairn_group_mpi(group, communicator)
    call options%set("read_only", .true.)
    call manager%open(group, from, options)
    call make_wanted(tensors, trim(tables)//"/tensors.txt", group%rank(), group%size())
    call manager%restore_latest(tensors%state, found)
    if (found /= 4) error stop "another step"
    before = [integer ::]
    do which = 1, 100
      rows = rows_here(tensors, which, number)
      if (number == 0) exit
      below = 0
      call MPI_Exscan(rows, below, 1, MPI_INTEGER, MPI_SUM, communicator, code)
      before = [before, merge(0, below, group%rank() == 0)]
    end do
    call check_restored(tensors, 4, before)
    call manager%close()
  end subroutine

  subroutine save_columns(to)
    character(len=*), intent(in) :: to
    type(cairn_group) :: group
    type(cairn_options) :: options
    type(cairn_manager) :: manager
    type(cairn_save) :: saving
    type(cairn_state) :: state
    integer, allocatable, target :: columns(:, :)
    integer(int64), target :: step
    integer :: first, mine, i, j, stat, least
    character(len=300) :: text
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
    call set_options(options)
    call manager%open(group, to, options)
    if (ranks > 1) then  ! one rank says that the tensor has another shape
      call state%add("a", columns(1:nx, 1:mine), [nx, merge(ny + 1, ny, rank == 1)], [1, first + 1])
      text = ""
      call manager%save(step, state, stat, text)
      call MPI_Allreduce(stat, least, 1, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, code)
      if (least /= stat .or. stat /= cairn_disagreement) error stop "not the error of all ranks"
      if (index(text, "'a'") == 0) error stop "an error without the key"
      call state%clear()
    end if
    call state%add("step", step)
    call state%add("a", columns(1:nx, 1:mine), [nx, ny], [1, first + 1])
    if (one%how == "async") then
      call manager%save_async(step, state, stat, text, until="release")
      if (stat /= cairn_invalid_argument .or. index(text, "released") == 0) error stop "a wrong word"
      call saving%release(stat, text)
      if (stat /= cairn_invalid_argument) error stop "a save that has not begun"
      call manager%save_async(step, state, until="released", save=saving)
      call saving%release()
      columns = 0
      step = 0
      call manager%wait()
    else
      call manager%save(step, state)
    end if
    call manager%close()
  end subroutine

  !> The first half of the ranks restores, each some rows.
  subroutine restore_rows(from)
    character(len=*), intent(in) :: from
    type(cairn_group) :: group
    type(cairn_manager) :: manager
    type(cairn_state) :: state
    integer, allocatable, target :: rows(:, :)
    integer(int64), target :: step
    integer(int64) :: found
    integer :: some, first, mine, i, j, stat
    character(len=300) :: text
    text = ""
    call cairn_group_mpi(group, MPI_COMM_NULL, stat, text)
    if (stat /= cairn_invalid_argument .or. index(text, "MPI_COMM_NULL") == 0) error stop "no communicator"
    call MPI_Comm_split(MPI_COMM_WORLD, merge(1, MPI_UNDEFINED, rank < (ranks + 1)/2), rank, some, code)
    if (some == MPI_COMM_NULL) return
    call cairn_group_mpi(group, some)
    call MPI_Comm_free(some, code)  ! the group has its own
    first = rank*nx/group%size()
    mine = (rank + 1)*nx/group%size() - first
    allocate (rows(mine, ny), source=0)
    call state%add("step", step)
    call state%add("a", rows, [nx, ny], [first + 1, 1])
    call manager%open(group, from)
    call manager%restore_latest(state, found)
    if (found /= 4 .or. step /= 4) error stop "another step"
    do j = 1, ny
      do i = 1, mine
        if (rows(i, j) /= 1000*(first + i) + j) error stop "another value"
      end do
    end do
    call manager%close()
  end subroutine
end program
