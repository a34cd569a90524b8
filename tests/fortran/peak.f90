! What calls of the Fortran face take beyond what the process had just before them: their arrays, and at most 96 MiB.
! usage: fortran_peak DIRECTORY; a status of 77: this system does not count it.
program peak
  use checks
  implicit none
  integer(int64), parameter :: mib = 1048576_int64, promised = 96 * mib, many = 20000, each = 4
  type(cairn_group) :: group
  type(cairn_state) :: state
  real(real64), allocatable, target :: values(:)
  integer(int64) :: i
  character(len=64) :: key
  character(len=4000) :: directory
  call get_command_argument(1, directory)
  if (.not. forget_peak()) stop 77
  allocate(values(32 * mib))
  values = 1
  call group%serial()
  call state%add("u", values)
  call saves_and_restores("large", 8 * size(values, kind=int64), promised)
  call check(values(size(values)) == 1, "what was restored")
  call state%clear()
  do i = 0, many - 1
    write (key, '(a,i0,a,i0)') "layer", i / 10, "/weight", mod(i, 10_int64)
    call state%add(trim(key), values(each * i + 1:each * (i + 1)))
  end do
  ! What the library knows of each tensor takes memory, too.
  call saves_and_restores("small", 8 * each * many, max(promised, 3584 * many))
contains
  subroutine saves_and_restores(name, bytes, most)
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: bytes, most
    type(cairn_manager) :: manager
    integer(int64) :: before, step
    call manager%open(group, trim(directory)//"/"//name)
    do step = 1, 5
      call check(forget_peak(), "the peak is forgotten")
      before = status_bytes("VmRSS")
      if (step <= 2) then
        call manager%save(step, state)
      else if (step <= 4) then
        call manager%save_async(step, state)
        call manager%wait()
      else
        call manager%restore(4_int64, state)
      end if
      ! The memory pool of asynchronous saves is made once.
      call check(status_bytes("VmHWM") - before - merge(bytes, 0_int64, step == 3) <= most, name//" within the promise")
    end do
    call manager%close()
  end subroutine
  function status_bytes(name) result(bytes)
    character(len=*), intent(in) :: name
    integer(int64) :: bytes
    character(len=256) :: line
    integer :: unit, error
    bytes = -1
    open (newunit=unit, file="/proc/self/status", action="read", iostat=error)
    do while (error == 0)
      read (unit, '(a)', iostat=error) line
      if (error /= 0 .or. index(line, name//":") /= 1) cycle
      read (line(len(name) + 2:index(line, "kB") - 1), *) bytes
      bytes = bytes * 1024
    end do
    close (unit)
  end function
  function forget_peak() result(can)
    logical :: can
    integer :: unit, error
    open (newunit=unit, file="/proc/self/clear_refs", action="write", access="stream", form="formatted", iostat=error)
    if (error == 0) write (unit, '(a)', iostat=error) "5"
    if (error == 0) close (unit, iostat=error)
    can = error == 0 .and. status_bytes("VmHWM") > 0
  end function
end program
