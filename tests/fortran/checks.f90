!> The checks of the programs here: the first check that fails prints its name and ends the program.
module checks
  use, intrinsic :: iso_fortran_env
  use cairn
  implicit none
  character(len=400) :: text = ""
  character(len=:), allocatable :: not_allocated
  integer :: stat = 0
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    write (error_unit, '(3a)') what, ": ", trim(text)
    error stop 1
  end subroutine
  !> Checks that the last call failed with this code, and that its text has these words.
  subroutine failed(code, words)
    integer, intent(in) :: code
    character(len=*), intent(in) :: words
    call check(stat == code .and. index(text, words) > 0, "not the error with '"//words//"'")
    stat = 0
    text = ""
  end subroutine
end module
