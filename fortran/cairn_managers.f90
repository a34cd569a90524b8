!> Numbered checkpoints in one directory, and reads of their tensors.
module cairn_managers
  use cairn_base
  use cairn_saves
  use cairn_settings
  use cairn_states
  implicit none
  private
  public :: cairn_manager, cairn_read, cairn_step

  type :: cairn_step
    integer(int64) :: step = 0
    logical :: newest = .false., superseded = .false., damaged = .false., pinned = .false.
    !> With a tier: where it can be restored from, and how many more nodes of a set may be lost.
    logical :: on_nodes = .false., at_home = .true.
    integer :: margin = 0
    logical :: passed_over = .false.  !< by restore_latest
  end type

  type, bind(c) :: c_step_info
    integer(c_int64_t) :: step, sequence
    integer(c_int) :: newest, superseded, pinned, has_metric
    real(c_double) :: metric
    type(c_ptr) :: damage
    integer(c_int) :: on_nodes, at_home, margin
    type(c_ptr) :: passed_over
  end type

  type, bind(c) :: c_stop_reason
    integer(c_int) :: kind, rank, signal, exit_code
    type(c_ptr) :: text
  end type

  !> All procedures are collective: every rank calls them with the same arguments, and they fail on all
  !> ranks with the same error, or on none. close() comes before MPI_Finalize.
  type :: cairn_manager
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => open_manager
    procedure :: close => close_manager
    procedure, private :: save_int, save_long, save_async_int, save_async_long
    generic :: save => save_int, save_long
    !> Copies the state and returns: the arrays may be changed. Later calls commit it, at latest wait().
    !> With until="released" it does not copy; the arrays may be changed after save%release().
    generic :: save_async => save_async_int, save_async_long
    procedure :: poll
    procedure :: wait => wait_all
    procedure :: wait_home  !< waits also until the newest save is in the directory
    procedure, private :: should_save_int, should_save_long
    generic :: should_save => should_save_int, should_save_long
    procedure :: should_stop
    procedure :: restore_latest
    procedure, private :: restore_int, restore_long
    generic :: restore => restore_int, restore_long
    procedure :: steps  !< collective, too
    procedure, private :: pin_int, pin_long
    generic :: pin => pin_int, pin_long
    procedure, private :: unpin_int, unpin_long
    generic :: unpin => unpin_int, unpin_long
    procedure, private :: mark_int, mark_long
    !> Bad: restore_latest skips the step. Good: it takes the step, and earlier tries do not count.
    generic :: mark => mark_int, mark_long
    final :: finalize
    procedure, private :: refuse_copy
    generic :: assignment(=) => refuse_copy
  end type

  !> A box of a stored tensor, or all of it, by one process: call cairn_read(prefix, key, array), or with
  !> start (from 1 on, in Fortran's order): as much as the array holds. What is read is checked.
  interface cairn_read
    module procedure read_whole, read_box, read_box_long
  end interface

  interface
    ! Results from C are inout here: C writes nothing if it fails, and the compiler may discard the
    ! value that an out argument had before the call.
    function c_create(group, directory, options, manager) bind(c, name="cairn_manager_create") &
      result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: group, options
      character(kind=c_char), intent(in) :: directory(*)
      type(c_ptr), intent(inout) :: manager
      integer(c_int) :: code
    end function
    subroutine c_free(manager) bind(c, name="cairn_manager_free")
      import c_ptr
      type(c_ptr), value :: manager
    end subroutine
    function c_save(manager, step, state, options, prefix) bind(c, name="cairn_manager_save") &
      result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: manager, state, options, prefix
      integer(c_int64_t), value :: step
      integer(c_int) :: code
    end function
    function c_poll(manager, idle) bind(c, name="cairn_manager_poll") result(code)
      import c_ptr, c_int
      type(c_ptr), value :: manager
      integer(c_int), intent(inout) :: idle
      integer(c_int) :: code
    end function
    function c_wait(manager) bind(c, name="cairn_manager_wait") result(code)
      import c_ptr, c_int
      type(c_ptr), value :: manager
      integer(c_int) :: code
    end function
    function c_should_save(manager, step, yes) bind(c, name="cairn_manager_should_save") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: manager
      integer(c_int64_t), value :: step
      integer(c_int), intent(inout) :: yes
      integer(c_int) :: code
    end function
    function c_should_stop(manager, reason) bind(c, name="cairn_manager_should_stop") result(code)
      import c_ptr, c_int
      type(c_ptr), value :: manager
      type(c_ptr), intent(inout) :: reason
      integer(c_int) :: code
    end function
    function c_restore_latest(manager, state, options, step, report) &
      bind(c, name="cairn_manager_restore_latest") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: manager, state, options, report
      integer(c_int64_t), intent(inout) :: step
      integer(c_int) :: code
    end function
    function c_restore(manager, step, state, options, report) bind(c, name="cairn_manager_restore") &
      result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: manager, state, options, report
      integer(c_int64_t), value :: step
      integer(c_int) :: code
    end function
    function c_steps(manager, count, infos) bind(c, name="cairn_manager_steps") result(code)
      import c_ptr, c_int, c_size_t
      type(c_ptr), value :: manager
      integer(c_size_t), intent(inout) :: count
      type(c_ptr), intent(inout) :: infos
      integer(c_int) :: code
    end function
    function c_pin(manager, step) bind(c, name="cairn_manager_pin") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: manager
      integer(c_int64_t), value :: step
      integer(c_int) :: code
    end function
    function c_mark(manager, step, good) bind(c, name="cairn_manager_mark") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: manager
      integer(c_int64_t), value :: step
      integer(c_int), value :: good
      integer(c_int) :: code
    end function
    function c_read(prefix, key, array, starts, start) bind(c, name="cairn_fortran_read") result(code)
      import c_int, c_char, c_int64_t
      character(kind=c_char), intent(in) :: prefix(*), key(*)
      type(*), dimension(..), intent(inout), target :: array
      integer(c_int), value :: starts
      integer(c_int64_t), intent(in) :: start(*)
      integer(c_int) :: code
    end function
  end interface
  procedure(c_wait), bind(c, name="cairn_manager_wait_home") :: c_wait_home
  procedure(c_pin), bind(c, name="cairn_manager_unpin") :: c_unpin

contains

  !> Makes the directory if it is missing, becomes its owner and recovers it.
  subroutine open_manager(self, group, directory, options, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    type(cairn_group), intent(in) :: group
    character(len=*), intent(in) :: directory
    type(cairn_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: with
    with = c_null_ptr
    if (present(options)) with = options%handle
    call self%close()
    call finish(c_create(group%handle, to_c(directory), with, self%handle), stat, errmsg)
  end subroutine

  !> Not collective. Waits for this rank's bytes of saves in flight, and gives up the directory.
  subroutine close_manager(self)
    class(cairn_manager), intent(inout) :: self
    call c_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine finalize(self)
    type(cairn_manager), intent(inout) :: self
    call self%close()
  end subroutine

  subroutine save_long(self, step, state, stat, errmsg, metric)
    class(cairn_manager), intent(inout) :: self
    integer(int64), intent(in) :: step
    type(cairn_state), intent(inout) :: state
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    real(real64), intent(in), optional :: metric  !< how good it is, for "keep.best"
    type(c_ptr) :: options
    options = save_options(metric)
    call finish_and_free(c_save(self%handle, step, state_handle(state), options, c_null_ptr), options, &
                         stat, errmsg)
  end subroutine

  subroutine save_async_long(self, step, state, stat, errmsg, metric, until, save)
    class(cairn_manager), intent(inout) :: self
    integer(int64), intent(in) :: step
    type(cairn_state), intent(inout) :: state
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    real(real64), intent(in), optional :: metric
    character(len=*), intent(in), optional :: until
    type(cairn_save), intent(inout), optional :: save
    call begin_save(self%handle, step, state_handle(state), stat, errmsg, metric, until, save)
  end subroutine

  !> Commits saves whose bytes are written, without waiting; idle: no save is pending.
  subroutine poll(self, idle, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    logical, intent(out), optional :: idle
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: none
    none = 0
    call finish(c_poll(self%handle, none), stat, errmsg)
    if (present(idle)) idle = none /= 0
  end subroutine

  subroutine wait_all(self, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_wait(self%handle), stat, errmsg)
  end subroutine

  subroutine wait_home(self, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_wait_home(self%handle), stat, errmsg)
  end subroutine

  logical function should_save_long(self, step, stat, errmsg) result(yes)
    class(cairn_manager), intent(inout) :: self
    integer(int64), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: answer
    answer = 0
    call finish(c_should_save(self%handle, step, answer), stat, errmsg)
    yes = answer /= 0
  end function

  !> exit_code is for the calling script: 75 another job should go on, 76 none should yet.
  logical function should_stop(self, reason, exit_code, stat, errmsg) result(yes)
    class(cairn_manager), intent(inout) :: self
    character(len=:), allocatable, intent(out), optional :: reason
    integer, intent(out), optional :: exit_code
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: found
    type(c_stop_reason), pointer :: why
    found = c_null_ptr
    call finish(c_should_stop(self%handle, found), stat, errmsg)
    yes = c_associated(found)
    if (present(exit_code)) exit_code = 0
    if (.not. yes) return
    call c_f_pointer(found, why)
    if (present(reason)) reason = from_c(why%text)
    if (present(exit_code)) exit_code = why%exit_code
  end function

  !> step is the step that was restored, -1 if there is no checkpoint.
  subroutine restore_latest(self, state, step, options, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    type(cairn_state), intent(inout) :: state
    integer(int64), intent(out), optional :: step
    type(cairn_restore_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: found
    type(c_ptr) :: with
    with = c_null_ptr
    if (present(options)) with = options%handle
    found = -1
    call finish(c_restore_latest(self%handle, state_handle(state), with, found, c_null_ptr), &
                stat, errmsg)
    if (present(step)) step = found
  end subroutine

  subroutine restore_long(self, step, state, options, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer(int64), intent(in) :: step
    type(cairn_state), intent(inout) :: state
    type(cairn_restore_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: with
    with = c_null_ptr
    if (present(options)) with = options%handle
    call finish(c_restore(self%handle, step, state_handle(state), with, c_null_ptr), stat, errmsg)
  end subroutine

  !> Collective. The steps in the order of their commits: the last is the newest.
  subroutine steps(self, list, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    type(cairn_step), allocatable, intent(out) :: list(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_size_t) :: count
    type(c_ptr) :: infos
    type(c_ptr), pointer :: all(:)
    type(c_step_info), pointer :: one
    integer :: i
    count = 0
    infos = c_null_ptr
    call finish(c_steps(self%handle, count, infos), stat, errmsg)
    allocate (list(count))
    if (count == 0) return
    call c_f_pointer(infos, all, [count])
    do i = 1, size(all)
      call c_f_pointer(all(i), one)
      list(i) = cairn_step(one%step, one%newest /= 0, one%superseded /= 0, &
                           len(from_c(one%damage)) > 0, one%pinned /= 0, &
                           one%on_nodes /= 0, one%at_home /= 0, int(one%margin), &
                           len(from_c(one%passed_over)) > 0)
    end do
  end subroutine

  subroutine pin_long(self, step, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer(int64), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_pin(self%handle, step), stat, errmsg)
  end subroutine

  subroutine unpin_long(self, step, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer(int64), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_unpin(self%handle, step), stat, errmsg)
  end subroutine

  subroutine mark_long(self, step, good, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer(int64), intent(in) :: step
    logical, intent(in) :: good
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_mark(self%handle, step, merge(1_c_int, 0_c_int, good)), stat, errmsg)
  end subroutine

  ! The same for default integers.

  subroutine save_int(self, step, state, stat, errmsg, metric)
    class(cairn_manager), intent(inout) :: self
    integer(int32), intent(in) :: step
    type(cairn_state), intent(inout) :: state
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    real(real64), intent(in), optional :: metric
    call self%save_long(int(step, int64), state, stat, errmsg, metric)
  end subroutine

  subroutine save_async_int(self, step, state, stat, errmsg, metric, until, save)
    class(cairn_manager), intent(inout) :: self
    integer(int32), intent(in) :: step
    type(cairn_state), intent(inout) :: state
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    real(real64), intent(in), optional :: metric
    character(len=*), intent(in), optional :: until
    type(cairn_save), intent(inout), optional :: save
    call self%save_async_long(int(step, int64), state, stat, errmsg, metric, until, save)
  end subroutine

  logical function should_save_int(self, step, stat, errmsg) result(yes)
    class(cairn_manager), intent(inout) :: self
    integer(int32), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    yes = self%should_save_long(int(step, int64), stat, errmsg)
  end function

  subroutine restore_int(self, step, state, options, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer(int32), intent(in) :: step
    type(cairn_state), intent(inout) :: state
    type(cairn_restore_options), intent(in), optional :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%restore_long(int(step, int64), state, options, stat, errmsg)
  end subroutine

  subroutine pin_int(self, step, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer(int32), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%pin_long(int(step, int64), stat, errmsg)
  end subroutine

  subroutine unpin_int(self, step, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer(int32), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%unpin_long(int(step, int64), stat, errmsg)
  end subroutine

  subroutine mark_int(self, step, good, stat, errmsg)
    class(cairn_manager), intent(inout) :: self
    integer(int32), intent(in) :: step
    logical, intent(in) :: good
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%mark_long(int(step, int64), good, stat, errmsg)
  end subroutine

  subroutine read_whole(prefix, key, array, stat, errmsg)
    character(len=*), intent(in) :: prefix, key
    type(*), dimension(..), intent(inout), target :: array
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call finish_any(c_read(to_c(prefix), to_c(key), array, 0, [0_int64]), stat, errmsg)
  end subroutine

  subroutine read_box(prefix, key, array, start, stat, errmsg)
    character(len=*), intent(in) :: prefix, key
    type(*), dimension(..), intent(inout), target :: array
    integer(int32), intent(in) :: start(:)
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call finish_any(c_read(to_c(prefix), to_c(key), array, size(start), int(start, int64)), &
                    stat, errmsg)
  end subroutine

  subroutine read_box_long(prefix, key, array, start, stat, errmsg)
    character(len=*), intent(in) :: prefix, key
    type(*), dimension(..), intent(inout), target :: array
    integer(int64), intent(in) :: start(:)
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call finish_any(c_read(to_c(prefix), to_c(key), array, size(start), start), stat, errmsg)
  end subroutine

  subroutine refuse_copy(self, other)
    class(cairn_manager), intent(inout) :: self
    class(cairn_manager), intent(in) :: other
    if (c_associated(self%handle, other%handle)) return
    error stop "cairn: a cairn_manager cannot be copied; pass it on, or point to it"
  end subroutine

end module
