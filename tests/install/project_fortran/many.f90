! Each rank's number, saved as one array.  usage: many DIRECTORY
program many
  use mpi_f08
  use cairn
  use cairn_mpi
  implicit none
  type(cairn_group) :: group
  type(cairn_manager) :: manager
  type(cairn_state) :: state
  integer, target :: number(1)
  integer :: rank
  character(len=512) :: directory
  call MPI_Init()
  call get_command_argument(1, directory)
  call cairn_group_mpi(group, MPI_COMM_WORLD)
  rank = group%rank()
  call state%add("n", number, [group%size()], [rank + 1])
  call manager%open(group, directory)
  number = rank
  call manager%save(1, state)
  number = -1
  call manager%restore(1, state)
  if (number(1) /= rank) error stop "another number"
  call manager%close()
  call group%free()
  call MPI_Finalize()
  if (rank == 0) print '(a)', "many works"
end program
