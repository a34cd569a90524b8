! A cursor: where a job is in its data.  usage: fortran_cursor DIRECTORY
program cursor
  use checks
  implicit none
  type(cairn_cursor) :: data
  type(cairn_group) :: group
  type(cairn_manager) :: manager
  type(cairn_state) :: state
  integer(int64), target :: step
  integer(int64) :: samples(7)
  integer :: used(50), count, job, turn
  character(len=4000) :: directory
  call get_command_argument(1, directory)
  call group%serial()
  call manager%open(group, trim(directory))
  used = 0
  step = 0
  do job = 1, 4
    call data%init(50, group, seed=5_int64)
    call state%clear()
    call state%add("step", step)
    call state%add_cursor("data", data)
    call manager%restore_latest(state)
    do turn = 1, 3
      call data%take(samples, count)
      used(samples(:count)) = used(samples(:count)) + 1
      call data%done(count)
    end do
    call data%take(samples, count)  ! ahead, and lost
    step = step + 1
    call manager%save(step, state)
  end do
  call check(all(used == 1), "each sample once")
  call check(data%epoch() == 0 .and. data%left() == 0, "at the end of the epoch")
  call data%next_epoch()
  call check(data%epoch() == 1 .and. data%left() == 50 .and. data%batches(7) == 8, "in the next one")

  call data%init(3, shuffle=.false.)
  call data%take(samples, count)
  call check(count == 3 .and. all(samples(:3) == [1, 2, 3]), "samples from 1")
  call data%done(4, stat=stat, errmsg=text)
  call failed(cairn_invalid_argument, "4 samples are done, and 3 were taken")
  call data%rewind()
  call check(data%left() == 3, "taken again")
  call data%init(0, stat=stat, errmsg=text)
  call failed(cairn_invalid_argument, "a cursor has 0 samples")
  call data%take(samples, count, stat=stat, errmsg=text)
  call failed(cairn_invalid_argument, "the cursor is NULL")
  call state%add_cursor("other", data, stat=stat, errmsg=text)
  call failed(cairn_invalid_argument, "the cursor is NULL")
end program
