!> The arrays that a rank saves to a checkpoint and gets back from it.
module cairn_states
  use cairn_base
  use cairn_cursors, only: cairn_cursor
  use cairn_row_vectors, only: cairn_rows, cairn_c_rows
  implicit none
  private
  public :: cairn_state, state_handle

  integer(c_int), parameter :: dtype_float64 = 2, dtype_int64 = 9, dtype_complex128 = 18

  !> The arrays of one rank, by key. It refers to the program's arrays and copies none: an array must be
  !> a target (or a pointer's), must stay allocated and where it is as long as the state is used, and is
  !> filled in place by a restore. Any rank from 0 to 7, sections with halos too; integers of 1 to 8
  !> bytes, real32, real64 and complex of these, logical of any kind, default characters.
  !>
  !> An array a(nx, ny) is the tensor [ny, nx] of the checkpoint, as in HDF5: the index that varies
  !> fastest in memory stays the fastest. C++ and numpy find a(i, j) at [j - 1, i - 1]. Otherwise
  !> each element would have to move, or the first dimension would vary fastest, which the format
  !> cannot say to numpy and TensorFlow.
  !>
  !> Arrays are intent(inout) although add does not change them, because a restore will. So the
  !> compiler refuses arguments without a place in memory: expressions, constants, sections by lists
  !> of indices.
  type :: cairn_state
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    !> add(key, array): a whole tensor, which is the same on every rank; also a scalar.
    procedure, private :: add_whole
    !> add(key, array, global_shape, start): the part of a tensor of this shape that begins at start,
    !> which counts from 1; both in Fortran's order of dimensions.
    procedure, private :: add_slice, add_slice_long
    generic :: add => add_whole, add_slice, add_slice_long
    !> add_patch(key, array, global_shape, start): one of several parts of the tensor on this rank.
    procedure, private :: add_patch_int, add_patch_long
    generic :: add_patch => add_patch_int, add_patch_long
    !> add_sparse(key, array, global_shape, start, fill): a part of a tensor that has gaps, elements
    !> that no rank holds; they read as fill, an integer, a real or a complex number. A restore sets
    !> memory in gaps to this value, or leaves it as it is with keep. Each further call with the
    !> same key adds one more part.
    procedure, private :: add_sparse_int, add_sparse_long
    generic :: add_sparse => add_sparse_int, add_sparse_long
    !> Rows that a restore deals anew to ranks, which changes their number: call add_rows(key,
    !> rows).
    procedure :: add_rows
    !> Rows that are the same on all ranks; a restore resizes them to the stored number.
    procedure :: add_resizable
    !> An array of this rank alone, restored on the same number of ranks. On another number it is
    !> left as it is with optional_, else the restore fails.
    procedure :: add_private
    !> Rows by global id: the last dimension of the array counts the ids, integers from `first` on.
    procedure :: add_indexed
    !> The position of the job in its data; the state keeps what it needs of the cursor.
    procedure :: add_cursor
    !> "automatic", "sliced" or "dense".
    procedure :: store
    procedure :: units
    !> The value of an attribute is JSON; an empty key stands for the checkpoint.
    procedure :: attribute
    !> Removes all arrays; new ones can be added.
    procedure :: clear
    final :: finalize
    procedure, private :: refuse_copy
    generic :: assignment(=) => refuse_copy
  end type

  interface
    function c_create(state) bind(c, name="cairn_state_create") result(code)
      import c_ptr, c_int
      type(c_ptr), intent(inout) :: state
      integer(c_int) :: code
    end function
    subroutine c_free(state) bind(c, name="cairn_state_free")
      import c_ptr
      type(c_ptr), value :: state
    end subroutine
    function c_add_whole(state, key, array) bind(c, name="cairn_fortran_add_whole") result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*)
      type(*), dimension(..), intent(inout), target :: array
      integer(c_int) :: code
    end function
    function c_add_slice(state, key, array, dims, shape, starts, start) &
      bind(c, name="cairn_fortran_add_slice") result(code)
      import c_ptr, c_int, c_char, c_int64_t
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*)
      type(*), dimension(..), intent(inout), target :: array
      integer(c_int), value :: dims, starts
      integer(c_int64_t), intent(in) :: shape(*), start(*)
      integer(c_int) :: code
    end function
    function c_add_patch(state, key, array, dims, shape, starts, start) &
      bind(c, name="cairn_fortran_add_patch") result(code)
      import c_ptr, c_int, c_char, c_int64_t
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*)
      type(*), dimension(..), intent(inout), target :: array
      integer(c_int), value :: dims, starts
      integer(c_int64_t), intent(in) :: shape(*), start(*)
      integer(c_int) :: code
    end function
    function c_add_sparse(state, key, array, dims, shape, starts, start, dtype, fill, keep) &
      bind(c, name="cairn_fortran_add_sparse") result(code)
      import c_ptr, c_int, c_char, c_int64_t
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*)
      type(*), dimension(..), intent(inout), target :: array
      integer(c_int), value :: dims, starts, dtype, keep
      integer(c_int64_t), intent(in) :: shape(*), start(*)
      type(c_ptr), value :: fill
      integer(c_int) :: code
    end function
    function c_add_cursor(state, key, cursor) bind(c, name="cairn_state_add_cursor") result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*)
      type(c_ptr), value :: cursor
      integer(c_int) :: code
    end function
    function c_add_resizable(state, key, dtype, dims, row_shape, rows) &
      bind(c, name="cairn_state_add_resizable") result(code)
      import c_ptr, c_int, c_char, c_int64_t, c_int32_t, cairn_c_rows
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int32_t), value :: dtype
      integer(c_int), value :: dims
      integer(c_int64_t), intent(in) :: row_shape(*)
      type(cairn_c_rows), intent(in) :: rows
      integer(c_int) :: code
    end function
    function c_add_ragged(state, key, dtype, dims, row_shape, rows, distribution, context) &
      bind(c, name="cairn_state_add_ragged") result(code)
      import c_ptr, c_funptr, c_int, c_char, c_int64_t, c_int32_t, cairn_c_rows
      type(c_ptr), value :: state, context
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int32_t), value :: dtype
      integer(c_int), value :: dims
      integer(c_int64_t), intent(in) :: row_shape(*)
      type(cairn_c_rows), intent(in) :: rows
      type(c_funptr), value :: distribution
      integer(c_int) :: code
    end function
    function c_add_private(state, key, array, optional_) &
      bind(c, name="cairn_fortran_add_private") result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*)
      type(*), dimension(..), intent(inout), target :: array
      integer(c_int), value :: optional_
      integer(c_int) :: code
    end function
    function c_add_indexed(state, key, array, ids, first, rows, ids_key) &
      bind(c, name="cairn_fortran_add_indexed") result(code)
      import c_ptr, c_int, c_char, c_int64_t
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*), ids_key(*)
      type(*), dimension(..), intent(inout), target :: array, ids
      integer(c_int64_t), value :: first, rows
      integer(c_int) :: code
    end function
    function c_store(state, storage) bind(c, name="cairn_state_store") result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: storage(*)
      integer(c_int) :: code
    end function
    function c_units(state, key, units) bind(c, name="cairn_state_units") result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: key(*), units(*)
      integer(c_int) :: code
    end function
    function c_attribute(state, key, name, json) bind(c, name="cairn_state_attribute") result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: state, key
      character(kind=c_char), intent(in) :: name(*), json(*)
      integer(c_int) :: code
    end function
  end interface

contains

  !> The handle for C; makes the state in C if there is none yet.
  function state_handle(self) result(handle)
    class(cairn_state), intent(inout) :: self
    type(c_ptr) :: handle
    if (.not. c_associated(self%handle)) call finish(c_create(self%handle))
    handle = self%handle
  end function

  subroutine add_whole(self, key, array, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call finish_any(c_add_whole(state_handle(self), to_c(key), array), stat, errmsg)
  end subroutine

  subroutine add_slice(self, key, array, global_shape, start, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array
    integer(int32), intent(in) :: global_shape(:), start(:)
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call finish_any(c_add_slice(state_handle(self), to_c(key), array, size(global_shape), &
                                int(global_shape, int64), size(start), int(start, int64)), stat, errmsg)
  end subroutine

  subroutine add_slice_long(self, key, array, global_shape, start, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array
    integer(int64), intent(in) :: global_shape(:), start(:)
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call finish_any(c_add_slice(state_handle(self), to_c(key), array, size(global_shape), global_shape, &
                                size(start), start), stat, errmsg)
  end subroutine

  subroutine add_patch_int(self, key, array, global_shape, start, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array
    integer(int32), intent(in) :: global_shape(:), start(:)
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call finish_any(c_add_patch(state_handle(self), to_c(key), array, size(global_shape), &
                                int(global_shape, int64), size(start), int(start, int64)), stat, errmsg)
  end subroutine

  subroutine add_patch_long(self, key, array, global_shape, start, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array
    integer(int64), intent(in) :: global_shape(:), start(:)
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call finish_any(c_add_patch(state_handle(self), to_c(key), array, size(global_shape), global_shape, &
                                size(start), start), stat, errmsg)
  end subroutine

  subroutine add_sparse_int(self, key, array, global_shape, start, fill, keep, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array
    integer(int32), intent(in) :: global_shape(:), start(:)
    class(*), intent(in) :: fill
    logical, intent(in), optional :: keep
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call self%add_sparse_long(key, array, int(global_shape, int64), int(start, int64), fill, keep, stat, &
                              errmsg)
  end subroutine

  subroutine add_sparse_long(self, key, array, global_shape, start, fill, keep, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array
    integer(int64), intent(in) :: global_shape(:), start(:)
    class(*), intent(in) :: fill
    logical, intent(in), optional :: keep
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    integer(c_int) :: keeps, dtype
    integer(c_int64_t), target :: number
    complex(real64), target :: value
    type(c_ptr) :: at
    keeps = 0
    if (present(keep)) keeps = merge(1, 0, keep)
    dtype = dtype_complex128
    at = c_loc(value)
    select type (fill)
    type is (integer(int32))
      number = fill
      dtype = dtype_int64
      at = c_loc(number)
    type is (integer(int64))
      number = fill
      dtype = dtype_int64
      at = c_loc(number)
    type is (real(real32))
      value = fill
      dtype = dtype_float64  ! reads the real part
    type is (real(real64))
      value = fill
      dtype = dtype_float64
    type is (complex(real32))
      value = fill
    type is (complex(real64))
      value = fill
    class default
      dtype = 0
    end select
    call finish_any(c_add_sparse(state_handle(self), to_c(key), array, size(global_shape), global_shape, &
                                 size(start), start, dtype, at, keeps), stat, errmsg)
  end subroutine

  subroutine add_resizable(self, key, rows, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(cairn_rows), intent(in) :: rows
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    if (rows%are_missing(stat, errmsg)) return
    associate (row_shape => rows%stored_row_shape())
      call finish(c_add_resizable(state_handle(self), to_c(key), rows%dtype(), size(row_shape), &
                                  row_shape, rows%calls()), stat, errmsg)
    end associate
  end subroutine

  subroutine add_cursor(self, key, cursor, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(cairn_cursor), intent(in) :: cursor
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_add_cursor(state_handle(self), to_c(key), cursor%c_handle()), stat, errmsg)
  end subroutine

  subroutine add_rows(self, key, rows, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(cairn_rows), intent(in) :: rows
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    if (rows%are_missing(stat, errmsg)) return
    associate (row_shape => rows%stored_row_shape())
      call finish(c_add_ragged(state_handle(self), to_c(key), rows%dtype(), size(row_shape), row_shape, &
                               rows%calls(), c_null_funptr, c_null_ptr), stat, errmsg)
    end associate
  end subroutine

  subroutine add_private(self, key, array, optional_, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array
    logical, intent(in), optional :: optional_
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    integer(c_int) :: may_be_missing
    may_be_missing = 0
    if (present(optional_)) may_be_missing = merge(1, 0, optional_)
    call finish_any(c_add_private(state_handle(self), to_c(key), array, may_be_missing), stat, errmsg)
  end subroutine

  !> rows: the number of rows on all ranks; left out: as many as ids. With ids_key ids may have
  !> gaps, and are stored under that key.
  subroutine add_indexed(self, key, array, ids, first, rows, ids_key, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: array, ids
    integer(int64), intent(in), optional :: first, rows
    class(*), intent(in), optional :: ids_key  ! characters, see finish_any
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    integer(int64) :: from, count
    character(len=:), allocatable :: name
    from = 1
    if (present(first)) from = first
    count = -1
    if (present(rows)) count = rows
    name = ""
    if (present(ids_key)) then
      select type (ids_key)
      type is (character(len=*))
        name = ids_key
      class default
        error stop "cairn: ids_key= is no text"
      end select
    end if
    call finish_any(c_add_indexed(state_handle(self), to_c(key), array, ids, from, count, to_c(name)), &
                    stat, errmsg)
  end subroutine

  subroutine store(self, storage, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: storage
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_store(state_handle(self), to_c(storage)), stat, errmsg)
  end subroutine

  subroutine units(self, key, text, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key, text
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_units(state_handle(self), to_c(key), to_c(text)), stat, errmsg)
  end subroutine

  subroutine attribute(self, key, name, json, stat, errmsg)
    class(cairn_state), intent(inout) :: self
    character(len=*), intent(in) :: key, name, json
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=:, kind=c_char), allocatable, target :: text
    type(c_ptr) :: at
    text = to_c(key)
    at = c_null_ptr
    if (len_trim(key) > 0) at = c_loc(text)
    call finish(c_attribute(state_handle(self), at, to_c(name), to_c(json)), stat, errmsg)
  end subroutine

  subroutine clear(self)
    class(cairn_state), intent(inout) :: self
    call c_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine finalize(self)
    type(cairn_state), intent(inout) :: self
    call self%clear()
  end subroutine

  subroutine refuse_copy(self, other)
    class(cairn_state), intent(inout) :: self
    class(cairn_state), intent(in) :: other
    if (c_associated(self%handle, other%handle)) return
    error stop "cairn: a cairn_state cannot be copied; pass it on, or point to it"
  end subroutine

end module
