!> The ranks of a job, and options by name.
module cairn_settings
  use cairn_base
  implicit none
  private
  public :: cairn_group, cairn_stop, cairn_options, cairn_restore_options

  !> The ranks: serial() or cairn_group_mpi (module cairn_mpi) sets them. A manager keeps what it
  !> needs.
  type :: cairn_group
    type(c_ptr) :: handle = c_null_ptr  !< of the C interface
  contains
    procedure :: serial => make_serial  !< one rank
    procedure :: rank => rank_of        !< from 0 on; -1: the group is not set
    procedure :: size => size_of
    procedure :: free => free_group
    final :: finalize_group
    procedure, private :: refuse_group
    generic :: assignment(=) => refuse_group
  end type

  !> What asks the process to stop, for should_stop. init() installs signal handlers: early in a
  !> program, after MPI_Init. Names and values are options of cairn::StopOptions (cairn/stop.hpp), such
  !> as "signals" and "15,10", "margin_seconds" and "60".
  type :: cairn_stop
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: init => init_stop
    procedure :: request => request_stop  !< the application's own reason, on any rank
    final :: finalize_stop
    procedure, private :: refuse_stop
    generic :: assignment(=) => refuse_stop
  end type

  type :: kept_text
    character(len=:, kind=c_char), allocatable :: text
  end type

  !> Options of a manager, by the names that they have in C++ (docs/c.md): set("keep.last", 3).
  type :: cairn_options
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: set_text, set_int, set_long, set_real, set_logical
    generic :: set => set_text, set_int, set_long, set_real, set_logical
    procedure :: get
    procedure :: use_stop
    final :: finalize_options
    procedure, private :: refuse_options
    generic :: assignment(=) => refuse_options
  end type

  !> Options of a restore: set("rename.u", "old/u"), set("may_be_missing.v", "true").
  type :: cairn_restore_options
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: set => set_restore
    final :: finalize_restore_options
    procedure, private :: refuse_restore_options
    generic :: assignment(=) => refuse_restore_options
  end type

  interface
    function c_group_serial(group) bind(c, name="cairn_group_serial") result(code)
      import c_ptr, c_int
      type(c_ptr), intent(inout) :: group
      integer(c_int) :: code
    end function
    subroutine c_group_free(group) bind(c, name="cairn_group_free")
      import c_ptr
      type(c_ptr), value :: group
    end subroutine
    pure function c_group_rank(group) bind(c, name="cairn_group_rank") result(rank)
      import c_ptr, c_int
      type(c_ptr), value, intent(in) :: group
      integer(c_int) :: rank
    end function
    pure function c_group_size(group) bind(c, name="cairn_group_size") result(ranks)
      import c_ptr, c_int
      type(c_ptr), value, intent(in) :: group
      integer(c_int) :: ranks
    end function
    function c_stop_create(count, names, values, stop) bind(c, name="cairn_stop_create") result(code)
      import c_ptr, c_int, c_size_t
      integer(c_size_t), value :: count
      type(c_ptr), intent(in) :: names(*), values(*)
      type(c_ptr), intent(inout) :: stop
      integer(c_int) :: code
    end function
    subroutine c_stop_free(stop) bind(c, name="cairn_stop_free")
      import c_ptr
      type(c_ptr), value :: stop
    end subroutine
    subroutine c_stop_request(stop) bind(c, name="cairn_stop_request")
      import c_ptr
      type(c_ptr), value :: stop
    end subroutine
    function c_options_stop(options, stop) bind(c, name="cairn_options_stop") result(code)
      import c_ptr, c_int
      type(c_ptr), value :: options, stop
      integer(c_int) :: code
    end function
    function c_options_create(options) bind(c, name="cairn_options_create") result(code)
      import c_ptr, c_int
      type(c_ptr), intent(inout) :: options
      integer(c_int) :: code
    end function
    subroutine c_options_free(options) bind(c, name="cairn_options_free")
      import c_ptr
      type(c_ptr), value :: options
    end subroutine
    function c_options_set(options, name, value) bind(c, name="cairn_options_set") result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: name(*), value(*)
      integer(c_int) :: code
    end function
    function c_options_get(options, name, value) bind(c, name="cairn_options_get") result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: value
      integer(c_int) :: code
    end function
    function c_restore_create(options) bind(c, name="cairn_restore_options_create") result(code)
      import c_ptr, c_int
      type(c_ptr), intent(inout) :: options
      integer(c_int) :: code
    end function
    subroutine c_restore_free(options) bind(c, name="cairn_restore_options_free")
      import c_ptr
      type(c_ptr), value :: options
    end subroutine
    function c_restore_set(options, name, value) bind(c, name="cairn_restore_options_set") &
      result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: name(*), value(*)
      integer(c_int) :: code
    end function
  end interface

contains

  subroutine make_serial(self, stat, errmsg)
    class(cairn_group), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%free()
    call finish(c_group_serial(self%handle), stat, errmsg)
  end subroutine

  pure integer function rank_of(self)
    class(cairn_group), intent(in) :: self
    rank_of = c_group_rank(self%handle)
  end function

  pure integer function size_of(self)
    class(cairn_group), intent(in) :: self
    size_of = c_group_size(self%handle)
  end function

  subroutine free_group(self)
    class(cairn_group), intent(inout) :: self
    call c_group_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine finalize_group(self)
    type(cairn_group), intent(inout) :: self
    call self%free()
  end subroutine

  subroutine init_stop(self, names, values, stat, errmsg)
    class(cairn_stop), intent(inout) :: self
    character(len=*), intent(in), optional :: names(:), values(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(kept_text), allocatable, target :: texts(:, :)
    type(c_ptr), allocatable :: at(:, :)
    integer :: i, count
    count = 0
    if (present(names)) count = size(names)
    if (present(values)) count = max(count, size(values))
    allocate (texts(count, 2), at(count, 2))
    at = c_null_ptr  ! C refuses a name without a value, or the reverse
    if (present(names)) then
      do i = 1, size(names)
        texts(i, 1)%text = to_c(names(i))
        at(i, 1) = c_loc(texts(i, 1)%text)
      end do
    end if
    if (present(values)) then
      do i = 1, size(values)
        texts(i, 2)%text = to_c(values(i))
        at(i, 2) = c_loc(texts(i, 2)%text)
      end do
    end if
    call c_stop_free(self%handle)
    self%handle = c_null_ptr
    call finish(c_stop_create(int(count, c_size_t), at(:, 1), at(:, 2), self%handle), stat, errmsg)
  end subroutine

  subroutine request_stop(self)
    class(cairn_stop), intent(in) :: self
    call c_stop_request(self%handle)
  end subroutine

  subroutine finalize_stop(self)
    type(cairn_stop), intent(inout) :: self
    call c_stop_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  !> Gives a stop request to should_stop() of managers with these options.
  subroutine use_stop(self, stop, stat, errmsg)
    class(cairn_options), intent(inout) :: self
    type(cairn_stop), intent(in) :: stop
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    if (.not. c_associated(self%handle)) call finish(c_options_create(self%handle))
    call finish(c_options_stop(self%handle, stop%handle), stat, errmsg)
  end subroutine

  subroutine set_text(self, name, value, stat, errmsg)
    class(cairn_options), intent(inout) :: self
    character(len=*), intent(in) :: name, value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    if (.not. c_associated(self%handle)) call finish(c_options_create(self%handle))
    call finish(c_options_set(self%handle, to_c(name), to_c(value)), stat, errmsg)
  end subroutine

  subroutine set_int(self, name, value, stat, errmsg)
    class(cairn_options), intent(inout) :: self
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%set_long(name, int(value, int64), stat, errmsg)
  end subroutine

  subroutine set_long(self, name, value, stat, errmsg)
    class(cairn_options), intent(inout) :: self
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=24) :: text
    write (text, '(i0)') value
    call self%set_text(name, text, stat, errmsg)
  end subroutine

  subroutine set_real(self, name, value, stat, errmsg)
    class(cairn_options), intent(inout) :: self
    character(len=*), intent(in) :: name
    real(real64), intent(in) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=32) :: text
    write (text, '(es24.16e3)') value
    call self%set_text(name, adjustl(text), stat, errmsg)
  end subroutine

  subroutine set_logical(self, name, value, stat, errmsg)
    class(cairn_options), intent(inout) :: self
    character(len=*), intent(in) :: name
    logical, intent(in) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%set_text(name, trim(merge("true ", "false", value)), stat, errmsg)
  end subroutine

  subroutine get(self, name, value, stat, errmsg)
    class(cairn_options), intent(inout) :: self
    character(len=*), intent(in) :: name
    character(len=:), allocatable, intent(out) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: text
    text = c_null_ptr
    if (.not. c_associated(self%handle)) call finish(c_options_create(self%handle))
    call finish(c_options_get(self%handle, to_c(name), text), stat, errmsg)
    value = from_c(text)
  end subroutine

  subroutine finalize_options(self)
    type(cairn_options), intent(inout) :: self
    call c_options_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine set_restore(self, name, value, stat, errmsg)
    class(cairn_restore_options), intent(inout) :: self
    character(len=*), intent(in) :: name, value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    if (.not. c_associated(self%handle)) call finish(c_restore_create(self%handle))
    call finish(c_restore_set(self%handle, to_c(name), to_c(value)), stat, errmsg)
  end subroutine

  subroutine finalize_restore_options(self)
    type(cairn_restore_options), intent(inout) :: self
    call c_restore_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine refuse_group(self, other)
    class(cairn_group), intent(inout) :: self
    class(cairn_group), intent(in) :: other
    if (.not. c_associated(self%handle, other%handle)) error stop "cairn: a cairn_group cannot be copied"
  end subroutine
  subroutine refuse_stop(self, other)
    class(cairn_stop), intent(inout) :: self
    class(cairn_stop), intent(in) :: other
    if (.not. c_associated(self%handle, other%handle)) error stop "cairn: a cairn_stop cannot be copied"
  end subroutine
  subroutine refuse_options(self, other)
    class(cairn_options), intent(inout) :: self
    class(cairn_options), intent(in) :: other
    if (.not. c_associated(self%handle, other%handle)) error stop "cairn: cairn_options cannot be copied"
  end subroutine
  subroutine refuse_restore_options(self, other)
    class(cairn_restore_options), intent(inout) :: self
    class(cairn_restore_options), intent(in) :: other
    if (.not. c_associated(self%handle, other%handle)) then
      error stop "cairn: cairn_restore_options cannot be copied"
    end if
  end subroutine

end module
