!> The position of a job in its data: which rank takes which samples of an epoch, and which were
!> used.
module cairn_cursors
  use cairn_base
  use cairn_settings, only: cairn_group
  implicit none
  private
  public :: cairn_cursor

  !> Deals the samples 1 ... samples of each epoch to ranks, so that a job that is restarted, on any
  !> number of ranks, uses each once: call state%add_cursor(key, cursor). A save stores which
  !> samples are done.
  type :: cairn_cursor
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    !> init(samples): deals them to the ranks of a group or, without a group, all to this rank. The
    !> order depends on seed and epoch or, with shuffle false, is ascending.
    procedure, private :: init_int, init_long
    generic :: init => init_int, init_long
    !> Takes the next samples of this rank, as many as the array has room for, or fewer if fewer are
    !> left in the epoch; count is their number.
    procedure :: take
    !> Notes that so many more of the samples that were taken have been used.
    procedure, private :: done_int, done_long
    generic :: done => done_int, done_long
    !> Samples that were taken and are not done will be taken again.
    procedure :: rewind => rewind_cursor
    procedure :: next_epoch
    !> The number of arrays of this size after which no rank has samples of the epoch left; the same
    !> on all ranks.
    procedure :: batches
    procedure :: epoch        !< from 0
    procedure :: left         !< of this rank's samples of the epoch, not taken
    procedure :: free => free_cursor
    procedure :: c_handle     !< for module cairn_states
    final :: finalize
    procedure, private :: refuse_copy
    generic :: assignment(=) => refuse_copy
  end type

  interface
    function c_create(samples, seed, shuffle, rank, ranks, cursor) bind(c, name="cairn_cursor_create") &
      result(code)
      import c_ptr, c_int, c_int64_t
      integer(c_int64_t), value :: samples, seed
      integer(c_int), value :: shuffle, rank, ranks
      type(c_ptr), intent(inout) :: cursor
      integer(c_int) :: code
    end function
    subroutine c_free(cursor) bind(c, name="cairn_cursor_free")
      import c_ptr
      type(c_ptr), value :: cursor
    end subroutine
    function c_take(cursor, most, samples, count) bind(c, name="cairn_cursor_take") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: cursor
      integer(c_int64_t), value :: most
      integer(c_int64_t), intent(inout) :: samples(*), count
      integer(c_int) :: code
    end function
    function c_done(cursor, count) bind(c, name="cairn_cursor_done") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: cursor
      integer(c_int64_t), value :: count
      integer(c_int) :: code
    end function
    function c_rewind(cursor) bind(c, name="cairn_cursor_rewind") result(code)
      import c_ptr, c_int
      type(c_ptr), value :: cursor
      integer(c_int) :: code
    end function
    function c_next_epoch(cursor) bind(c, name="cairn_cursor_next_epoch") result(code)
      import c_ptr, c_int
      type(c_ptr), value :: cursor
      integer(c_int) :: code
    end function
    function c_batches(cursor, size, batches) bind(c, name="cairn_cursor_batches") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: cursor
      integer(c_int64_t), value :: size
      integer(c_int64_t), intent(inout) :: batches
      integer(c_int) :: code
    end function
    function c_epoch(cursor) bind(c, name="cairn_cursor_epoch") result(epoch)
      import c_ptr, c_int64_t
      type(c_ptr), value :: cursor
      integer(c_int64_t) :: epoch
    end function
    function c_left(cursor) bind(c, name="cairn_cursor_left") result(left)
      import c_ptr, c_int64_t
      type(c_ptr), value :: cursor
      integer(c_int64_t) :: left
    end function
  end interface

contains

  subroutine init_int(self, samples, group, seed, shuffle, stat, errmsg)
    class(cairn_cursor), intent(inout) :: self
    integer(int32), intent(in) :: samples
    type(cairn_group), intent(in), optional :: group
    integer(int64), intent(in), optional :: seed
    logical, intent(in), optional :: shuffle
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%init_long(int(samples, int64), group, seed, shuffle, stat, errmsg)
  end subroutine

  subroutine init_long(self, samples, group, seed, shuffle, stat, errmsg)
    class(cairn_cursor), intent(inout) :: self
    integer(int64), intent(in) :: samples
    type(cairn_group), intent(in), optional :: group
    integer(int64), intent(in), optional :: seed
    logical, intent(in), optional :: shuffle
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: rank, ranks, shuffles
    integer(c_int64_t) :: key
    rank = 0
    ranks = 1
    shuffles = 1
    key = 0
    if (present(group)) then
      rank = group%rank()
      ranks = group%size()
    end if
    if (present(shuffle)) shuffles = merge(1, 0, shuffle)
    if (present(seed)) key = seed
    call self%free()
    call finish(c_create(samples, key, shuffles, rank, ranks, self%handle), stat, errmsg)
  end subroutine

  subroutine take(self, samples, count, stat, errmsg)
    class(cairn_cursor), intent(inout) :: self
    integer(int64), intent(inout), contiguous :: samples(:)
    integer, intent(out) :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: taken
    taken = 0
    call finish(c_take(self%handle, size(samples, kind=c_int64_t), samples, taken), stat, errmsg)
    count = int(taken)
    samples(:count) = samples(:count) + 1
  end subroutine

  subroutine done_int(self, count, stat, errmsg)
    class(cairn_cursor), intent(inout) :: self
    integer(int32), intent(in) :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%done_long(int(count, int64), stat, errmsg)
  end subroutine

  subroutine done_long(self, count, stat, errmsg)
    class(cairn_cursor), intent(inout) :: self
    integer(int64), intent(in) :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_done(self%handle, count), stat, errmsg)
  end subroutine

  subroutine rewind_cursor(self, stat, errmsg)
    class(cairn_cursor), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_rewind(self%handle), stat, errmsg)
  end subroutine

  subroutine next_epoch(self, stat, errmsg)
    class(cairn_cursor), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_next_epoch(self%handle), stat, errmsg)
  end subroutine

  !> Returns 0 before init(), and for a size below 1.
  integer(int64) function batches(self, size)
    class(cairn_cursor), intent(in) :: self
    integer, intent(in) :: size
    integer(c_int64_t) :: found
    found = 0
    if (c_batches(self%handle, int(size, int64), found) /= cairn_ok) found = 0
    batches = found
  end function

  integer(int64) function epoch(self)
    class(cairn_cursor), intent(in) :: self
    epoch = c_epoch(self%handle)
  end function

  integer(int64) function left(self)
    class(cairn_cursor), intent(in) :: self
    left = c_left(self%handle)
  end function

  type(c_ptr) function c_handle(self)
    class(cairn_cursor), intent(in) :: self
    c_handle = self%handle
  end function

  subroutine free_cursor(self)
    class(cairn_cursor), intent(inout) :: self
    call c_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine finalize(self)
    type(cairn_cursor), intent(inout) :: self
    call self%free()
  end subroutine

  subroutine refuse_copy(self, other)
    class(cairn_cursor), intent(inout) :: self
    class(cairn_cursor), intent(in) :: other
    if (c_associated(self%handle, other%handle)) return
    error stop "cairn: cairn_cursor cannot be copied; pass it on, or point to it"
  end subroutine

end module
