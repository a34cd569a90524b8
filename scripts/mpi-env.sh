# Sourced by scripts and read by CMake: mpirun needs these to run as root and with more ranks than
# cores (OMPI_: Open MPI 4, PRTE_: 5 and later; mapby: 6). Plain `export NAME=VALUE` only.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_MCA_mapby=:oversubscribe
