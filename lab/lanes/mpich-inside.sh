#!/usr/bin/env bash
# Run by the lane mpich in its chroot. Debian 12's Kokkos comes with Trilinos, which wants Open MPI.
set -u
. "$(dirname "$0")/../../scripts/lib.sh"
. "$root/lab/lanes/build.sh"
build=/opt/build/dev
note "$(mpiexec --version | sed -n 's/^ *Version: */MPICH /p')"
cc -O2 -shared -fPIC "$root/lab/lanes/rest.c" -o /opt/build/librest.so -ldl || die "rest.c does not compile"
configure_for_tests $build -DCAIRN_KOKKOS=OFF -DCAIRN_HDF5=ON -DCAIRN_FORTRAN=ON -DCAIRN_PYTHON=ON || exit 1
# Needed for the Python package; mpi4py of PyPI expects another name of MPICH's library than
# Debian's.
make_venv "$interop_requirements" $build/venv $build/venv.log || loud "SKIPPED: the Python package (no packages from PyPI, see $build/venv.log)"
mkdir -p /opt/build/named && ln -sf "$(ldconfig -p | sed -n 's/.*libmpich.so.12 .*=> //p')" /opt/build/named/libmpi.so.12
export LD_LIBRARY_PATH=/opt/build/named LD_PRELOAD=/opt/build/librest.so
# TensorFlow and PyTorch are tested elsewhere: for them it makes no difference which MPI there is.
status=0
build_and_test $build -LE '^(unit|threads|house|slurm)$' -E '^(interop|torch[.].*)$' || status=$?
leave_record /opt/build $build "what calls MPI or uses an installation, but the Kokkos layer"
exit $status
