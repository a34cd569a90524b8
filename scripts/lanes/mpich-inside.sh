#!/usr/bin/env bash
# Run by the lane mpich in its chroot. Debian 12's Kokkos comes with Trilinos, which wants Open MPI.
set -u
. "$(dirname "$0")/../lib.sh"
. "$root/scripts/lanes/build.sh"
note "$(mpiexec --version | sed -n 's/^ *Version: */MPICH /p')"
configure_for_tests /opt/build/dev -DCAIRN_KOKKOS=OFF -DCAIRN_HDF5=ON -DCAIRN_FORTRAN=ON -DCAIRN_PYTHON=ON &&
  build_and_test /opt/build/dev -LE '^(unit|threads|house|slurm)$'
