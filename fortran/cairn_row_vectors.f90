!> Rows whose number changes, such as particles. The library owns their memory.
module cairn_row_vectors
  use cairn_base
  implicit none
  private
  public :: cairn_rows, cairn_c_rows

  integer(c_int32_t), parameter :: dtype_float32 = 1, dtype_float64 = 2, dtype_int32 = 3, dtype_int64 = 9

  !> As in cairn/c/rows.h.
  type, bind(c) :: cairn_c_rows
    type(c_ptr) :: context
    type(c_funptr) :: count, resize, data, release
  end type

  !> This rank's rows of a tensor. It must live as long as states that use it.
  type :: cairn_rows
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(c_int32_t) :: number = 0
    integer(int64), allocatable :: row_shape(:)
  contains
    !> init(mold, row_shape): rows whose elements have the type of mold, any variable. row_shape is
    !> the shape of one row, [integer ::] for a single number.
    procedure :: init
    procedure :: count => count_rows
    procedure, private :: resize_int, resize_long
    generic :: resize => resize_int, resize_long
    !> Makes a pointer point to the rows: p(:) for rows of one number, p(:, :) for rows of several;
    !> the last dimension counts the rows. Call it again after resize and after a restore. If the
    !> rows have another type or rank, that is an error, and the pointer is null.
    procedure, private :: get_real64_1, get_real64_2, get_real32_1, get_real32_2, &
      get_int64_1, get_int64_2, get_int32_1, get_int32_2
    generic :: get => get_real64_1, get_real64_2, get_real32_1, get_real32_2, &
      get_int64_1, get_int64_2, get_int32_1, get_int32_2
    procedure :: free => free_rows
    procedure :: dtype => dtype_of_rows    !< for module cairn_states
    procedure :: stored_row_shape          !< the same
    procedure :: calls => calls_of_rows    !< the same
    procedure :: are_missing               !< the same: true before init(); then ends the call
    final :: finalize
    procedure, private :: refuse_copy
    generic :: assignment(=) => refuse_copy
  end type

  interface
    function c_dtype(array) bind(c, name="cairn_fortran_dtype") result(dtype)
      import c_int
      type(*), dimension(..), intent(in) :: array
      integer(c_int) :: dtype
    end function
    function c_vector_create(dtype, dims, row_shape, vector) bind(c, name="cairn_vector_create") &
      result(code)
      import c_ptr, c_int, c_int32_t, c_int64_t
      integer(c_int32_t), value :: dtype
      integer(c_int), value :: dims
      integer(c_int64_t), intent(in) :: row_shape(*)
      type(c_ptr), intent(inout) :: vector
      integer(c_int) :: code
    end function
    subroutine c_vector_free(vector) bind(c, name="cairn_vector_free")
      import c_ptr
      type(c_ptr), value :: vector
    end subroutine
    function c_vector_count(vector) bind(c, name="cairn_vector_count") result(rows)
      import c_ptr, c_int64_t
      type(c_ptr), value :: vector
      integer(c_int64_t) :: rows
    end function
    function c_vector_resize(vector, rows) bind(c, name="cairn_vector_resize") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: vector
      integer(c_int64_t), value :: rows
      integer(c_int) :: code
    end function
    function c_vector_data(vector) bind(c, name="cairn_vector_data") result(at)
      import c_ptr
      type(c_ptr), value :: vector
      type(c_ptr) :: at
    end function
    function c_check_rows(vector, dtype, rank, wanted_dtype, wanted_rank) &
      bind(c, name="cairn_fortran_check_rows") result(code)
      import c_ptr, c_int, c_int32_t
      type(c_ptr), value :: vector
      integer(c_int32_t), value :: dtype, wanted_dtype
      integer(c_int), value :: rank, wanted_rank
      integer(c_int) :: code
    end function
    subroutine c_vector_rows(vector, rows) bind(c, name="cairn_fortran_rows")
      import c_ptr, cairn_c_rows
      type(c_ptr), value :: vector
      type(cairn_c_rows), intent(out) :: rows
    end subroutine
  end interface

contains

  subroutine init(self, mold, row_shape, stat, errmsg)
    class(cairn_rows), intent(inout) :: self
    type(*), dimension(..), intent(in) :: mold
    integer, intent(in) :: row_shape(:)
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    call self%free()
    self%number = c_dtype(mold)
    if (self%number < 0) then
      call finish_any(-self%number, stat, errmsg)
      return
    end if
    self%row_shape = row_shape
    call finish_any(c_vector_create(self%number, size(row_shape), self%stored_row_shape(), self%handle), &
                    stat, errmsg)
  end subroutine

  integer(int64) function count_rows(self)
    class(cairn_rows), intent(in) :: self
    count_rows = c_vector_count(self%handle)
  end function

  subroutine resize_int(self, rows, stat, errmsg)
    class(cairn_rows), intent(inout) :: self
    integer(int32), intent(in) :: rows
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call self%resize_long(int(rows, int64), stat, errmsg)
  end subroutine

  subroutine resize_long(self, rows, stat, errmsg)
    class(cairn_rows), intent(inout) :: self
    integer(int64), intent(in) :: rows
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_vector_resize(self%handle, rows), stat, errmsg)
  end subroutine

  subroutine get_real64_1(self, rows, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    real(real64), pointer, intent(out) :: rows(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    rows => null()
    if (is_refused(self, dtype_float64, 1, stat, errmsg)) return
    call c_f_pointer(c_vector_data(self%handle), rows, [self%count()])
  end subroutine

  subroutine get_real64_2(self, rows, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    real(real64), pointer, intent(out) :: rows(:, :)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    rows => null()
    if (is_refused(self, dtype_float64, 2, stat, errmsg)) return
    call c_f_pointer(c_vector_data(self%handle), rows, [self%row_shape(1), self%count()])
  end subroutine

  subroutine get_real32_1(self, rows, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    real(real32), pointer, intent(out) :: rows(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    rows => null()
    if (is_refused(self, dtype_float32, 1, stat, errmsg)) return
    call c_f_pointer(c_vector_data(self%handle), rows, [self%count()])
  end subroutine

  subroutine get_real32_2(self, rows, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    real(real32), pointer, intent(out) :: rows(:, :)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    rows => null()
    if (is_refused(self, dtype_float32, 2, stat, errmsg)) return
    call c_f_pointer(c_vector_data(self%handle), rows, [self%row_shape(1), self%count()])
  end subroutine

  subroutine get_int64_1(self, rows, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    integer(int64), pointer, intent(out) :: rows(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    rows => null()
    if (is_refused(self, dtype_int64, 1, stat, errmsg)) return
    call c_f_pointer(c_vector_data(self%handle), rows, [self%count()])
  end subroutine

  subroutine get_int64_2(self, rows, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    integer(int64), pointer, intent(out) :: rows(:, :)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    rows => null()
    if (is_refused(self, dtype_int64, 2, stat, errmsg)) return
    call c_f_pointer(c_vector_data(self%handle), rows, [self%row_shape(1), self%count()])
  end subroutine

  subroutine get_int32_1(self, rows, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    integer(int32), pointer, intent(out) :: rows(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    rows => null()
    if (is_refused(self, dtype_int32, 1, stat, errmsg)) return
    call c_f_pointer(c_vector_data(self%handle), rows, [self%count()])
  end subroutine

  subroutine get_int32_2(self, rows, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    integer(int32), pointer, intent(out) :: rows(:, :)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    rows => null()
    if (is_refused(self, dtype_int32, 2, stat, errmsg)) return
    call c_f_pointer(c_vector_data(self%handle), rows, [self%row_shape(1), self%count()])
  end subroutine

  !> Whether a pointer of this type and rank cannot point to these rows; ends the call as finish()
  !> does.
  logical function is_refused(self, dtype, rank, stat, errmsg) result(refused)
    class(cairn_rows), intent(in) :: self
    integer(c_int32_t), intent(in) :: dtype
    integer, intent(in) :: rank
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = c_check_rows(self%handle, self%number, rank_of(self), dtype, rank)
    call finish(code, stat, errmsg)
    refused = code /= cairn_ok
  end function

  logical function are_missing(self, stat, errmsg)
    class(cairn_rows), intent(in) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    are_missing = is_refused(self, self%number, int(rank_of(self)), stat, errmsg)
  end function

  !> The rank of a pointer to the rows.
  pure integer function rank_of(self)
    class(cairn_rows), intent(in) :: self
    rank_of = 1
    if (allocated(self%row_shape)) rank_of = size(self%row_shape) + 1
  end function

  function stored_row_shape(self) result(row_shape)
    class(cairn_rows), intent(in) :: self
    integer(c_int64_t), allocatable :: row_shape(:)
    row_shape = [integer(c_int64_t) ::]  ! before init()
    if (allocated(self%row_shape)) row_shape = self%row_shape(size(self%row_shape):1:-1)
  end function

  integer(c_int32_t) function dtype_of_rows(self)
    class(cairn_rows), intent(in) :: self
    dtype_of_rows = self%number
  end function

  function calls_of_rows(self) result(calls)
    class(cairn_rows), intent(in) :: self
    type(cairn_c_rows) :: calls
    call c_vector_rows(self%handle, calls)
  end function

  subroutine free_rows(self)
    class(cairn_rows), intent(inout) :: self
    call c_vector_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine finalize(self)
    type(cairn_rows), intent(inout) :: self
    call self%free()
  end subroutine

  subroutine refuse_copy(self, other)
    class(cairn_rows), intent(inout) :: self
    class(cairn_rows), intent(in) :: other
    if (c_associated(self%handle, other%handle)) return
    error stop "cairn: cairn_rows cannot be copied; pass them on, or point to them"
  end subroutine

end module
