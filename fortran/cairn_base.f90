!> The common part of all Fortran modules: errors, and conversion of texts to and from C.
module cairn_base
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  implicit none
  public

  !> Codes of stat=. 0 is success; what each of them says stands in cairn/c/error.h.
  enum, bind(c)
    enumerator :: cairn_ok = 0, cairn_invalid_argument, cairn_not_found, cairn_already_exists, &
      cairn_disagreement, cairn_coverage, cairn_sharding, cairn_data_loss, cairn_io, cairn_no_space, &
      cairn_busy, cairn_unsupported, cairn_communication, cairn_durability_unknown, cairn_internal, &
      cairn_application, cairn_unavailable
  end enum

  type, bind(c) :: cairn_c_error
    integer(c_int) :: code, rank
    type(c_ptr) :: problem, reason, way_out, tensor, path, text
  end type

  interface
    function c_last_error() bind(c, name="cairn_fortran_last_error") result(error)
      import c_ptr
      type(c_ptr) :: error
    end function
    function c_version() bind(c, name="cairn_version") result(text)
      import c_ptr
      type(c_ptr) :: text
    end function
    pure function c_strlen(text) bind(c, name="strlen") result(length)
      import c_ptr, c_size_t
      type(c_ptr), value, intent(in) :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  !> The version of the library, "0.1.0".
  function cairn_version() result(text)
    character(len=:), allocatable :: text
    text = from_c(c_version())
  end function

  !> What made a call fail last, part by part, and all of it as text; see cairn_error in cairn/c/error.h.
  subroutine cairn_last_error(code, rank, problem, reason, way_out, tensor, path, text)
    integer, intent(out), optional :: code, rank
    character(len=:), allocatable, intent(out), optional :: problem, reason, way_out, tensor, path, text
    type(cairn_c_error), pointer :: error
    call c_f_pointer(c_last_error(), error)
    if (present(code)) code = error%code
    if (present(rank)) rank = error%rank
    if (present(problem)) problem = from_c(error%problem)
    if (present(reason)) reason = from_c(error%reason)
    if (present(way_out)) way_out = from_c(error%way_out)
    if (present(tensor)) tensor = from_c(error%tensor)
    if (present(path)) path = from_c(error%path)
    if (present(text)) text = from_c(error%text)
  end subroutine

  !> Ends each call: with stat= the code goes there, and the text to errmsg= if there is an error.
  !> Without stat= an error ends the program, and so the job. An errmsg= that is allocatable and not
  !> allocated is absent here, as the language has it.
  subroutine finish(code, stat, errmsg)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(cairn_c_error), pointer :: error
    if (present(stat)) stat = code
    if (code == cairn_ok) return
    call c_f_pointer(c_last_error(), error)
    if (present(errmsg)) errmsg = from_c(error%text)
    if (present(stat)) return
    write (error_unit, '(2a)') "cairn: ", from_c(error%text)
    error stop 1
  end subroutine

  !> The same for procedures that take arrays of any type. For an array of characters gfortran 12
  !> passes a length that the callee does not expect, in place of the lengths of the texts behind
  !> it (errmsg would be taken to be as long as the array's elements). What is class(*) has its length
  !> with it.
  subroutine finish_any(code, stat, errmsg)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    class(*), intent(inout), optional :: errmsg
    if (.not. present(errmsg)) then
      call finish(code, stat)
      return
    end if
    select type (errmsg)
    type is (character(len=*))
      call finish(code, stat, errmsg)
    class default
      error stop "cairn: errmsg= is no character variable"
    end select
  end subroutine

  !> A text for C, without trailing blanks.
  pure function to_c(text) result(with_zero)
    character(len=*), intent(in) :: text
    character(len=:, kind=c_char), allocatable :: with_zero
    with_zero = trim(text)//c_null_char
  end function

  function from_c(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer(c_size_t) :: i
    if (.not. c_associated(pointer)) then
      text = ""
      return
    end if
    call c_f_pointer(pointer, letters, [c_strlen(pointer)])
    allocate (character(len=size(letters)) :: text)
    do i = 1, size(letters, kind=c_size_t)
      text(i:i) = letters(i)
    end do
  end function

end module
