!> Cairn's Fortran face: use cairn, and cairn_mpi for the ranks of MPI. docs/fortran.md begins with a
!> program. Every procedure has stat= and errmsg= as its last arguments; without stat= an error ends the
!> program with its text. errmsg= has a length: an allocatable character that is not allocated is no
!> argument to the language, and stays so; cairn_last_error(text=) allocates one.
module cairn
  use cairn_base, only: cairn_version, cairn_last_error, cairn_ok, cairn_invalid_argument, &
    cairn_not_found, cairn_already_exists, cairn_disagreement, cairn_coverage, cairn_sharding, &
    cairn_data_loss, cairn_io, cairn_no_space, cairn_busy, cairn_unsupported, cairn_communication, &
    cairn_durability_unknown, cairn_internal, cairn_application, cairn_unavailable
  use cairn_settings, only: cairn_group, cairn_stop, cairn_options, cairn_restore_options
  use cairn_cursors, only: cairn_cursor
  use cairn_row_vectors, only: cairn_rows
  use cairn_saves, only: cairn_save
  use cairn_states, only: cairn_state
  use cairn_managers, only: cairn_manager, cairn_read, cairn_step
  implicit none
  public
end module
