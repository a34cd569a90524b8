!> The ranks of an MPI communicator, as `use mpi` and `use mpi_f08` have them.
module cairn_mpi
  use cairn_base
  use cairn_settings, only: cairn_group
#ifdef CAIRN_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  implicit none
  private
  public :: cairn_group_mpi

  !> Collective: call cairn_group_mpi(group, MPI_COMM_WORLD). It duplicates the communicator.
  interface cairn_group_mpi
    module procedure group_of_number
#ifdef CAIRN_MPI_F08
    module procedure group_of_communicator
#endif
  end interface

  interface
    function c_group_mpi(communicator, group) bind(c, name="cairn_group_mpi_f") result(code)
      import c_ptr, c_int
      integer, value :: communicator
      type(c_ptr), intent(inout) :: group
      integer(c_int) :: code
    end function
  end interface

contains

  subroutine group_of_number(group, communicator, stat, errmsg)
    type(cairn_group), intent(inout) :: group
    integer, intent(in) :: communicator
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call group%free()
    call finish(c_group_mpi(communicator, group%handle), stat, errmsg)
  end subroutine

#ifdef CAIRN_MPI_F08
  subroutine group_of_communicator(group, communicator, stat, errmsg)
    type(cairn_group), intent(inout) :: group
    type(MPI_Comm), intent(in) :: communicator
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call group_of_number(group, communicator%mpi_val, stat, errmsg)
  end subroutine
#endif

end module
