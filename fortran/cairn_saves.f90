!> Options of one save, and the handle of a save that goes on while the program computes.
module cairn_saves
  use cairn_base
  implicit none
  private
  public :: cairn_save, begin_save, save_options, finish_and_free

  !> A save that save_async has begun. Nothing here is collective. It may end before the save does.
  type :: cairn_save
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    !> After until="released": returns when the arrays may be changed; copies what was not written.
    procedure :: release
    procedure :: wait_written  !< returns when this rank's part is written or was given up
    procedure :: close => close_save
    final :: finalize
    procedure, private :: refuse_copy
    generic :: assignment(=) => refuse_copy
  end type

  interface
    function c_save_async(manager, step, state, options, save) &
      bind(c, name="cairn_manager_save_async") result(code)
      import c_ptr, c_int, c_int64_t
      type(c_ptr), value :: manager, state, options
      integer(c_int64_t), value :: step
      type(c_ptr), intent(inout), optional :: save
      integer(c_int) :: code
    end function
    function c_release(save) bind(c, name="cairn_save_release") result(code)
      import c_ptr, c_int
      type(c_ptr), value :: save
      integer(c_int) :: code
    end function
    subroutine c_free(save) bind(c, name="cairn_save_free")
      import c_ptr
      type(c_ptr), value :: save
    end subroutine
    function c_save_options_create(options) bind(c, name="cairn_save_options_create") result(code)
      import c_ptr, c_int
      type(c_ptr), intent(inout) :: options
      integer(c_int) :: code
    end function
    function c_save_options_set(options, name, value) bind(c, name="cairn_save_options_set") &
      result(code)
      import c_ptr, c_int, c_char
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: name(*), value(*)
      integer(c_int) :: code
    end function
    subroutine c_save_options_free(options) bind(c, name="cairn_save_options_free")
      import c_ptr
      type(c_ptr), value :: options
    end subroutine
  end interface
  procedure(c_release), bind(c, name="cairn_save_wait_written") :: c_wait_written

contains

  subroutine begin_save(manager, step, state, stat, errmsg, metric, until, save)
    type(c_ptr), intent(in) :: manager, state
    integer(int64), intent(in) :: step
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    real(real64), intent(in), optional :: metric
    character(len=*), intent(in), optional :: until
    type(cairn_save), intent(inout), optional :: save
    type(c_ptr) :: options
    integer(c_int) :: code
    options = save_options(metric)
    code = cairn_ok
    if (present(until)) then
      if (.not. c_associated(options)) call finish(c_save_options_create(options))
      code = c_save_options_set(options, to_c("until"), to_c(until))
    end if
    if (code /= cairn_ok) then
      call finish_and_free(code, options, stat, errmsg)
      return
    end if
    if (present(save)) then
      call save%close()
      code = c_save_async(manager, step, state, options, save%handle)
    else
      code = c_save_async(manager, step, state, options)
    end if
    call finish_and_free(code, options, stat, errmsg)
  end subroutine

  function save_options(metric) result(options)
    real(real64), intent(in), optional :: metric
    type(c_ptr) :: options
    character(len=32) :: text
    options = c_null_ptr
    if (.not. present(metric)) return
    call finish(c_save_options_create(options))
    write (text, '(es24.16e3)') metric
    call finish(c_save_options_set(options, to_c("metric"), to_c(adjustl(text))))
  end function

  subroutine finish_and_free(code, options, stat, errmsg)
    integer(c_int), intent(in) :: code
    type(c_ptr), intent(in) :: options
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call c_save_options_free(options)
    call finish(code, stat, errmsg)
  end subroutine

  subroutine release(self, stat, errmsg)
    class(cairn_save), intent(in) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_release(self%handle), stat, errmsg)
  end subroutine

  subroutine wait_written(self, stat, errmsg)
    class(cairn_save), intent(in) :: self
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call finish(c_wait_written(self%handle), stat, errmsg)
  end subroutine

  subroutine close_save(self)
    class(cairn_save), intent(inout) :: self
    call c_free(self%handle)
    self%handle = c_null_ptr
  end subroutine

  subroutine finalize(self)
    type(cairn_save), intent(inout) :: self
    call self%close()
  end subroutine

  subroutine refuse_copy(self, other)
    class(cairn_save), intent(inout) :: self
    class(cairn_save), intent(in) :: other
    if (c_associated(self%handle, other%handle)) return
    error stop "cairn: a cairn_save cannot be copied; pass it on, or point to it"
  end subroutine

end module
