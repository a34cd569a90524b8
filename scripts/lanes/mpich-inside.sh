#!/usr/bin/env bash
# Run by the lane mpich in its chroot. Debian 12's Kokkos comes with Trilinos, which wants Open MPI.
set -u
. "$(dirname "$0")/../lib.sh"
. "$root/scripts/lanes/build.sh"
note "$(mpiexec --version | sed -n 's/^ *Version: */MPICH /p')"
cc -O2 -shared -fPIC "$root/scripts/lanes/rest.c" -o /opt/build/librest.so -ldl || die "rest.c does not compile"
configure_for_tests /opt/build/dev -DCAIRN_KOKKOS=OFF -DCAIRN_HDF5=ON -DCAIRN_FORTRAN=ON -DCAIRN_PYTHON=ON ||
  exit 1
LD_PRELOAD=/opt/build/librest.so build_and_test /opt/build/dev -LE '^(unit|threads|house|slurm)$'
