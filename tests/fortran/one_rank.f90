! Every kind and rank of array, sections, texts, options, errors.  usage: fortran_one_rank DIRECTORY
! DIRECTORY/ckpt-3 is then looked at by others: element (i, j, k, ...) of an array has the value
! 100 i + 10 j + k + ..., as far as it fits.
program one_rank
  use checks
  implicit none
  integer, parameter :: nx = 3, ny = 2
  type :: point
    real(real64) :: x
    integer :: number
    real(real32) :: weight
  end type
  type :: field
    real(real64), allocatable :: u(:, :)
    character(len=:), allocatable :: name
  end type
  type(cairn_group) :: group
  type(cairn_options) :: options
  type(cairn_restore_options) :: restoring, converting
  type(cairn_manager) :: manager
  type(cairn_state) :: state, other
  type(cairn_step), allocatable :: list(:)
  type(cairn_rows) :: particles, numbers
  type(cairn_stop) :: stop_request
  real(real64), pointer :: at(:, :)
  integer(int32), pointer :: number(:), table(:, :)
  integer(int8), target :: i1(nx, ny)
  integer(int16), target :: i2(nx, ny)
  integer(int32), target :: i4(nx, ny)
  integer(int64), target :: i8(nx, ny), step
  real(real32), target :: r4(nx, ny)
  real(real64), target :: r8(nx, ny), scalar, halo(0:nx + 1, 0:ny + 1), back(nx, ny), wide(nx, ny + 2), &
    columns(nx, ny), all7(1, 2, 1, 2, 1, 2, 3)
  complex(real32), target :: c4(nx, ny)
  complex(real64), target :: c8(nx, ny)
  logical(int8), target :: l1(nx, ny)
  logical(int16), target :: l2(nx, ny)
  logical, target :: l4(nx, ny)
  logical(int64), target :: l8(nx, ny)
  character(len=6), target :: word, words(nx, ny), longer(nx, ny)
  character(len=3), target :: short
  real(real128), target :: r16
  integer(int64), target :: ids(3)
  real(real64), target :: by_id(2, 3)
  type(point), target :: points(3)
  type(field), target :: one
  real(real64), pointer :: none(:) => null()
  character(len=6), pointer :: none_of_text(:, :) => null()
  real(real64), allocatable, target :: unallocated(:)
  character(len=:), allocatable :: value, problem, tensor, whole_text
  character(len=512) :: directory
  integer :: i, j
  logical :: idle

  call get_command_argument(1, directory)
  if (command_argument_count() == 2) call last_save()
  call fill()
  call group%serial()
  call check(group%rank() == 0 .and. group%size() == 1, "a group of one rank")
  call options%set("keep.last", 4)
  call options%set("when.interval.seconds", 1.5_real64)
  call options%set("write.recycle", .false.)
  call options%get("keep.last", value)
  call check(value == "4", "an option")
  call options%get("when.interval.seconds", value)
  call check(value == "1.5", "an option of reals")
  call stop_request%init([character(len=10) :: "signals", "time_limit"], [character(len=5) :: "", "false"])
  call options%use_stop(stop_request)
  call particles%init(scalar, [3])
  call numbers%init(0_int32, [integer ::])
  call particles%init(r16, [3], stat, text)
  call failed(cairn_invalid_argument, "16 bytes")
  call particles%init(scalar, [3])
  call particles%resize(4_int64)
  call numbers%resize(4)
  call particles%get(number, stat, text)
  call failed(cairn_invalid_argument, "the rows are float64, and the pointer is to int32")
  call check(.not. associated(number), "a pointer to rows of another type")
  call numbers%get(table, stat, text)
  call failed(cairn_invalid_argument, "an array of rank 1, and the pointer is to one of rank 2")
  call particles%get(at)
  call numbers%get(number)
  at = reshape([(real(i, real64), i=1, 12)], [3, 4])
  number = [4, 3, 2, 1]
  call options%set("keep.lats", "4", stat, text)
  call failed(cairn_invalid_argument, "Did you mean 'keep.last'?")

  call manager%open(group, directory, options)
  call manager%restore(3, state, stat=stat, errmsg=text)
  call failed(cairn_not_found, "3")
  call manager%restore_latest(state, step)
  call check(step == -1, "nothing there")
  step = 3

  call add_all(state)
  call state%units("r8", "m/s")
  call state%attribute("r8", "level", "2")
  call state%attribute("", "made_by", '"Fortran"')
  call state%attribute("r8", "range", "[0, 1", stat, text)
  call failed(cairn_invalid_argument, "attribute 'range' of tensor 'r8' cannot be stored (it is not JSON")
  call state%attribute("", "CLASS", "1", stat, text)
  call failed(cairn_invalid_argument, "attribute 'CLASS' of the checkpoint cannot be stored")
  call state%add("r8", r8, stat, text)
  call failed(cairn_invalid_argument, "r8")
  call state%add("r16", r16, stat, text)
  call failed(cairn_invalid_argument, "a real of 16 bytes has no dtype")
  call cairn_last_error(tensor=tensor, problem=problem)
  call check(tensor == "r16" .and. index(problem, "tensor 'r16': a real of 16 bytes") == 1, "parts of an error")
  call state%add("r16", r16, stat, not_allocated)
  call cairn_last_error(text=whole_text)
  call check(.not. allocated(not_allocated) .and. index(whole_text, "real64") > 0, "an allocatable text")
  call state%add("points", points, stat, text)
  call failed(cairn_invalid_argument, "derived type")
  one%name = "abc"
  call state%add("name", one%name, stat, text)
  call failed(cairn_invalid_argument, "the length 0")
  call state%add("none", none, stat, text)
  call failed(cairn_invalid_argument, "not associated")
  allocate (unallocated(2))
  deallocate (unallocated)
  call state%add("unallocated", unallocated, stat, text)
  call failed(cairn_invalid_argument, "not allocated")
  call state%add("x", points(2)%x)
  call state%add("slice", r8, [nx, ny, 1], [1, 1, 1], stat, text)
  call failed(cairn_invalid_argument, "rank 2")
  call state%add("slice", r8, [nx, ny], [1], stat, text)
  call failed(cairn_invalid_argument, "global_shape has 2 numbers, and start 1")
  call state%add("slice", r8, [nx, ny], [0, 1], stat, text)
  call failed(cairn_invalid_argument, "[3 2]: elements (0:2, 1:2)")
  call state%add("slice", words, [nx, ny + 1], [1, 1], stat, text)
  call failed(cairn_invalid_argument, "whole on each rank")

  call state%add_patch("halo", r8, [nx, ny], [1, 1], stat, text)
  call failed(cairn_invalid_argument, "in the state already")
  columns = r8
  call state%add_patch("patched", columns(:, 1:1), [nx, ny], [1, 2], stat, text)
  call state%add_patch("patched", r8(2:, 2:2), [nx, ny], [2, 2], stat, text)
  call failed(cairn_invalid_argument, "overlap")
  call state%add_patch("patched", r4(:, 1:1), [nx, ny], [1, 1], stat, text)
  call failed(cairn_invalid_argument, "another type")
  call state%add_patch("patched", columns(:, 2:2), [nx, ny], [1, 1])

  call manager%save(3, state, metric=0.5_real64)
  call manager%save(3, state, stat, text)
  call failed(cairn_already_exists, "or set 'overwrite'.")
  call manager%save_async(5_int64, state)
  call manager%poll(idle)
  call manager%wait()
  call manager%wait_home()
  call manager%poll(idle)
  call check(idle, "nothing in flight")
  call check(.not. manager%should_save(6), "no save is due")
  call check(.not. manager%should_stop(), "no reason to stop")
  call stop_request%request()
  do while (.not. manager%should_stop(value, i))
  end do
  call check(i == 76 .and. index(value, "application") > 0, "the reason to stop")
  call manager%steps(list)
  call check(size(list) == 2, "two steps")
  call check(list(1)%step == 3 .and. list(2)%step == 5 .and. list(2)%newest, "which steps")
  call manager%pin(3); call manager%unpin(3)
  call manager%unpin(4, stat, text)
  call failed(cairn_not_found, "4")
  call manager%mark(5, .false.); call manager%steps(list)
  call check(list(2)%passed_over .and. .not. list(1)%passed_over, "marked bad")
  call manager%mark(5_int64, .true.)

  call clear()
  call manager%restore(3_int64, state)
  call check_all()
  call state%clear()

  ! Another name, another part, another kind of memory.
  halo = -1
  call other%add("part", halo(1:2, 1:1))
  call restoring%set("rename.part", "r8")
  call restoring%set("offset.part", "1,1")  ! of the tensor: from 0 on, slowest first
  call manager%restore(3, other, restoring)
  call check(all(halo(1:2, 1) == r8(2:3, 2)) .and. count(halo /= -1) == 2, "a part")
  call restoring%set("offset.part", "1,2")
  call manager%restore(3, other, restoring, stat, text)
  call failed(cairn_invalid_argument, &
              "[2 1] at offset [2 1] is no part of the stored [3 2] (the offset is at least [0 0] and at most [1 1])")
  call other%clear()
  call other%add("hole", r8(:, 1:1), [nx, ny], [1, 1])
  call manager%save(6, other, stat, text)
  call failed(cairn_coverage, "'hole' [3 2]: elements (1:3, 2:2) are held by no rank")
  call other%clear()
  call other%add("r8", i4)
  call converting%set("convert", "exact")
  call manager%restore(3, other, converting, stat, text)
  call failed(cairn_invalid_argument, "110.25 at [1 1] has no place in int32")
  call other%clear()
  call other%add("r8", halo(nx:1:-1, ny:1:-1))
  call manager%restore(3, other)
  call check(all(halo(1:nx, 1:ny) == r8(nx:1:-1, ny:1:-1)), "backwards")
  call other%clear()
  call other%add("r8", r4)
  call manager%restore(3, other, stat=stat, errmsg=text)
  call failed(cairn_invalid_argument, "float32")
  call other%clear()
  call other%add("word", short)
  call manager%restore(3, other, stat=stat, errmsg=text)
  call failed(cairn_invalid_argument, "room for 3")
  call other%clear()  ! one memory under two keys: for the same values only
  back = -1
  call other%add("r8", back)
  call other%add("patched", back)
  call manager%restore(3, other, stat=stat, errmsg=text)
  call failed(cairn_invalid_argument, "'r8' and 'patched' are to be restored into the same memory")
  call check(all(back == -1), "nothing is touched")
  call other%clear()
  call other%add("r8", back)
  call other%add("halo", back)
  call manager%restore(3, other)
  call check(all(back == r8), "the same values")
  call manager%close()

  ! The same as HDF5, where the build has it.
  call options%set("store.format", "hdf5")
  call manager%open(group, trim(directory)//"-hdf5", options, stat, text)
  if (stat == cairn_ok) then
    call other%clear()
    halo(1:nx, 1:ny) = r8
    call add_all(other)
    call manager%save(3, other)
    call manager%close()
  else
    call failed(cairn_unsupported, "HDF5")
  end if

  call gaps_and_lengths()
  call loop_that_asks_at_its_top("when.interval.steps", "5", .false.)
  call loop_that_asks_at_its_top("when.interval.steps", "5", .true.)
  call loop_that_asks_at_its_top("when.interval.seconds", "1e-9", .false.)
  call loop_that_asks_at_its_top("when.interval.optimal_for", "1e-9", .true.)
  call what_was_never_begun()

  back = 0
  call cairn_read(trim(directory)//"/ckpt-3", "r8", back)
  call check(all(back == r8), "read")
  call cairn_read(trim(directory)//"/ckpt-3", "r8", back(1:2, 1:1), [2, 2])
  call check(all(back(1:2, 1) == r8(2:3, 2)), "read a box")
  call cairn_read(trim(directory)//"/ckpt-3", "patched", back)
  call check(all(back(:, 1) == r8(:, 2)) .and. all(back(:, 2) == r8(:, 1)), "patches")
  call cairn_read(trim(directory)//"/ckpt-3", "words", longer)
  call check(all(longer == words), "read words")
  longer = "before"
  call cairn_read(trim(directory)//"/ckpt-3", "words", longer(1:2, 1:1), [2, 2])
  call check(all(longer(1:2, 1) == words(2:3, 2)) .and. all(longer(:, 2) == "before"), "read some words")
  call cairn_read(trim(directory)//"/ckpt-3", "words", longer, [2, 1], stat, text)
  call failed(cairn_invalid_argument, "reaches out of 'words'")
  call cairn_read(trim(directory)//"/ckpt-3", "words", none_of_text, [1, 1], stat, text)
  call failed(cairn_invalid_argument, "not allocated")
  call cairn_read(trim(directory)//"/ckpt-3", "r4", back, stat, text)
  call failed(cairn_invalid_argument, "float32")
  call cairn_read(trim(directory)//"/ckpt-3", "r88", back, stat, text)
  call failed(cairn_not_found, "r88")
  call cairn_read(trim(directory)//"/ckpt-3", "r8", back(1, :), stat, text)
  call failed(cairn_invalid_argument, "another shape")
  print '(a)', "the Fortran face works by one process, version "//cairn_version()

contains

  !> Columns that no rank holds, and rows whose number only the checkpoint tells.
  subroutine gaps_and_lengths()
    call options%set("store.format", "bundle")
    call manager%open(group, trim(directory)//"-gaps", options)
    call other%clear()
    call other%add_sparse("u", r8(:, 2:2), [nx, ny], [1, 2], -0.5_real64)
    call other%add_sparse("v", r8, [nx, ny], [1, 1, 1], 0.0, stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "differ in length")
    call other%add_sparse("v", i4, [nx, ny], [1, 1], 0.5, stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "fill value 0.5")
    call other%add_sparse("v", r8, [nx, ny], [1, 1], "0", stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "no number")
    call other%add_sparse("parts", r8(:, 1:1), [nx, ny + 2], [1, 1], -0.5_real64)
    call other%add_sparse("parts", r8(:, 2:2), [nx, ny + 2], [1, 3], -0.5_real64)
    call other%add_sparse("parts", r8(:, 2:2), [nx, ny + 2], [1, 3], -0.5_real64, stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "overlap")
    call other%add_sparse("parts", r8(:, 2:2), [nx, ny + 2], [1, 4], 0.5_real64, stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "another fill value")
    call other%add_patch("parts", r8(:, 2:2), [nx, ny + 2], [1, 4], stat, text)
    call failed(cairn_invalid_argument, "another fill value")
    call other%add_resizable("numbers", numbers)
    call manager%save(1, other)
    call other%clear()
    back = 7
    call numbers%resize(1_int64)
    call other%add_sparse("u", back, [nx, ny], [1, 1], -0.5_real64)
    call other%add_resizable("numbers", numbers)
    call manager%restore(1, other)
    call check(all(back(:, 1) == -0.5) .and. all(back(:, 2) == r8(:, 2)), "gaps are filled")
    call numbers%get(number)
    call check(numbers%count() == 4 .and. all(number == [4, 3, 2, 1]), "as many as are stored")
    call other%clear()
    call other%add_sparse("parts", wide, [nx, ny + 2], [1, 1], -0.5_real64)
    call manager%restore(1, other)
    call check(all(wide(:, 1) == r8(:, 1)) .and. all(wide(:, 3) == r8(:, 2)) .and. &
               all(wide(:, 2:4:2) == -0.5), "two parts of a tensor with gaps")
    back = 7
    call other%clear()
    call other%add_sparse("u", back, [nx, ny], [1, 1], -0.5_real64, keep=.true.)
    call manager%restore(1, other)
    call check(all(back(:, 1) == 7) .and. all(back(:, 2) == r8(:, 2)), "gaps are kept")
    call manager%close()
  end subroutine

  !> A job that ends while a save is pending (tests/support/last_save.sh).
  subroutine last_save()
    real(real64), allocatable, target :: u(:)
    allocate (u(2**19), source=0.0_real64)
    call group%serial()
    call manager%open(group, directory)
    call state%add("u", u)
    call manager%restore_latest(state, step)
    print '(a, i0)', "restored ", step
    call manager%save_async(step + 2, state)
    call manager%close()
    stop
  end subroutine

  !> A loop that asks before it computes, twice: the second goes on from the checkpoint of the first.
  subroutine loop_that_asks_at_its_top(option, value, stops)
    character(len=*), intent(in) :: option, value
    logical, intent(in) :: stops
    type(cairn_options) :: when
    type(cairn_manager) :: again
    type(cairn_state) :: counter
    type(cairn_stop) :: stop_now
    integer(int64), target :: now
    integer(int64) :: restored
    integer :: turn
    logical :: stopped
    now = 1
    call when%set(option, value)
    call counter%add("now", now)
    do turn = 1, 2
      call stop_now%init([character(len=10) :: "signals", "time_limit"], [character(len=5) :: "", "false"])
      call when%use_stop(stop_now)
      call again%open(group, trim(directory)//"-loop-"//option//merge("1", "0", stops), when)
      call again%restore_latest(counter, restored)
      call check(merge(restored == -1, restored > 1 .and. restored == now, turn == 1), "the loop's step")
      if (stops) call stop_now%request()
      stopped = .false.
      do while (now < 7*turn .and. .not. stopped)
        if (again%should_save(now)) then
          call check(now /= restored, "the restored step is not due")
          call again%save(now, counter)
        end if
        stopped = again%should_stop()
        now = now + 1
      end do
      call check(stopped .eqv. stops, "stopped")
      call again%close()
    end do
  end subroutine

  !> Calls each procedure with a handle that was never set.
  subroutine what_was_never_begun()
    type(cairn_group) :: no_group
    type(cairn_manager) :: no_manager
    type(cairn_rows) :: no_rows
    type(cairn_stop) :: no_stop
    type(cairn_options) :: new_options
    logical :: yes
    call check(no_group%rank() == -1 .and. no_group%size() == 0, "no group")
    call no_manager%open(no_group, trim(directory)//"-never", stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "call serial() or cairn_group_mpi()")
    call no_manager%save(1, state, stat, text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    call no_manager%save_async(1, state, stat, text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    call no_manager%restore(1, state, stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    call no_manager%restore_latest(state, step, stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    call no_manager%wait(stat, text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    call no_manager%steps(list, stat, text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    call no_manager%pin(1, stat, text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    yes = no_manager%should_save(1, stat, text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    call check(.not. yes, "should_save of no manager")
    yes = no_manager%should_stop(stat=stat, errmsg=text)
    call failed(cairn_invalid_argument, "the manager is not open: call open()")
    call check(.not. yes, "should_stop of no manager")
    call no_manager%close()
    call no_manager%close()
    call other%clear()
    call other%add_rows("rows", no_rows, stat, text)
    call failed(cairn_invalid_argument, "the rows are not begun: call init()")
    call other%add_resizable("rows", no_rows, stat, text)
    call failed(cairn_invalid_argument, "the rows are not begun: call init()")
    call no_rows%resize(1_int64, stat, text)
    call failed(cairn_invalid_argument, "the rows are not begun: call init()")
    call no_rows%get(at, stat, text)
    call failed(cairn_invalid_argument, "the rows are not begun: call init()")
    call check(.not. associated(at), "a pointer to no rows")
    call check(no_rows%count() == -1, "count of no rows")
    call new_options%use_stop(no_stop, stat, text)
    call failed(cairn_invalid_argument, "the stop request is not begun: call init()")
    call no_stop%request()
    call no_stop%init([character(len=10) :: "signals", "time_limit"], [character(len=5) :: ""], stat, text)
    call failed(cairn_invalid_argument, "a name of an option has no value")
    call no_stop%init(["time_limiT"], ["false"], stat, text)
    call failed(cairn_invalid_argument, "Did you mean 'time_limit'?")
    call restoring%set("renam.u", "v", stat, text)
    call failed(cairn_invalid_argument, "rename")
    call other%store("thin", stat, text)
    call failed(cairn_invalid_argument, "dense")
    call other%add("", r8, stat, text)
    call failed(cairn_invalid_argument, "empty")
    call cairn_read("nowhere/ckpt-1", "r8", back, stat, text)
    call failed(cairn_not_found, "nowhere")
  end subroutine

  subroutine fill()
    integer :: a(nx, ny)
    a = reshape([((100*i + 10*j, i=1, nx), j=1, ny)], [nx, ny])
    i1 = int(a/10, int8); i2 = int(a, int16); i4 = a; i8 = a + 2_int64**40
    r4 = real(a) + 0.5; r8 = a + 0.25_real64; scalar = 2.5
    c4 = cmplx(a, -a); c8 = cmplx(a, 0.125_real64, real64)
    l1 = mod(a/10, 2) == 0; l2 = l1; l4 = l1; l8 = l1
    word = "Fort"
    do j = 1, ny
      do i = 1, nx
        words(i, j) = repeat("x", i + nx*(j - 1))
      end do
    end do
    halo = -1
    halo(1:nx, 1:ny) = r8
    all7 = reshape([(real(i, real64), i=1, size(all7))], shape(all7))
    allocate (one%u(0:nx + 1, 0:ny + 1), source=-1.0_real64)
    one%u(1:nx, 1:ny) = r8
    ids = [3, 1, 2]
    by_id = reshape([(10*ids(i) + [1, 2], i=1, 3)], [2, 3])
    points = [(point(i, i, 1.0), i=1, 3)]
    r16 = 1
  end subroutine

  subroutine add_all(to)
    type(cairn_state), intent(inout) :: to
    call to%add("step", step)
    call to%add("i1", i1); call to%add("i2", i2); call to%add("i4", i4); call to%add("i8", i8)
    call to%add("r4", r4); call to%add("r8", r8); call to%add("scalar", scalar)
    call to%add("c4", c4); call to%add("c8", c8); call to%add("all7", all7)
    call to%add("l1", l1); call to%add("l2", l2); call to%add("l4", l4); call to%add("l8", l8)
    call to%add("word", word); call to%add("words", words)
    call to%add("halo", halo(1:nx, 1:ny), [nx, ny], [1, 1])
    call to%add("in_field", one%u(1:nx, 1:ny), [nx, ny], [1, 1])
    call to%add("empty", halo(1:0, 1:ny))
    call to%add_rows("particles", particles)
    call to%add_rows("numbers", numbers)
    call to%add_private("private", r4, optional_=.true.)
    call to%add_indexed("by_id", by_id, ids)
  end subroutine

  subroutine clear()
    step = 0
    i1 = 0; i2 = 0; i4 = 0; i8 = 0; r4 = 0; r8 = 0; scalar = 0; c4 = 0; c8 = 0; all7 = 0
    l1 = .false.; l2 = .true.; l4 = .true.; l8 = .false.
    word = "other"; words = "other"
    halo(1:nx, 1:ny) = 0
    one%u(1:nx, 1:ny) = 0
    by_id = 0
    ids = [1, 2, 3]  ! in another order
    points(2)%x = 0
    columns = 0
    call particles%resize(1_int64)
    call numbers%resize(0_int64)
  end subroutine

  subroutine check_all()
    integer :: a(nx, ny)
    a = reshape([((100*i + 10*j, i=1, nx), j=1, ny)], [nx, ny])
    call check(step == 3 .and. scalar == 2.5, "scalars")
    call check(all(i1 == a/10) .and. all(i2 == a) .and. all(i4 == a) .and. all(i8 == a + 2_int64**40), &
               "integers")
    call check(all(r4 == real(a) + 0.5) .and. all(r8 == a + 0.25_real64) .and. all(columns == r8), &
               "reals")
    call check(all(c4 == cmplx(a, -a)) .and. all(c8 == cmplx(a, 0.125_real64, real64)), "complex")
    call check(all(l1 .eqv. mod(a/10, 2) == 0) .and. all(l2 .eqv. l1) .and. all(l4 .eqv. l1) .and. &
               logical(all(l8 .eqv. l1)), "logical")
    call check(word == "Fort" .and. words(1, 1) == "x" .and. words(3, 2) == "xxxxxx", "texts")
    call check(all(halo(1:nx, 1:ny) == r8) .and. all(halo(0, :) == -1) .and. &
               all(halo(:, 0) == -1) .and. all(halo(nx + 1, :) == -1) .and. &
               all(halo(:, ny + 1) == -1), "halos")
    call check(all(one%u(1:nx, 1:ny) == r8) .and. count(one%u == -1) == 2*(nx + ny + 2), "a field")
    call check(all(reshape(all7, [24]) == [(i, i=1, 24)]), "seven dimensions")
    call check(all(by_id(1, :) == [11, 21, 31]) .and. all(by_id(2, :) == [12, 22, 32]), "rows by id")
    call particles%get(at)
    call numbers%get(number)
    call check(particles%count() == 4 .and. all(reshape(at, [12]) == [(i, i=1, 12)]), "rows")
    call check(numbers%count() == 4 .and. all(number == [4, 3, 2, 1]), "rows of one number")
    call check(all(points%x == [1, 2, 3]) .and. all(points%number == [1, 2, 3]), "a component")
  end subroutine
end program
