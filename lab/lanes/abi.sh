# Sourced by lane: one build by the standard binary interface of MPI (libmpi_abi), with MPICH's headers.
# Its programs run with MPICH and, as they are, with Intel MPI, both of PyPI, and with sid's Open MPI in a chroot.
. "$root/lab/lanes/build.sh"
has_program python3 || skip "python3 is needed"
libraries=(mpich intel-mpi)
if [ "$(id -u)" -eq 0 ] && has_program debootstrap; then
  . "$root/lab/lanes/system.sh"
  enter_system sid openmpi-bin libopenmpi-dev
  libraries+=(openmpi)
else
  loud "LEFT OUT: Open MPI, since a chroot of sid needs root and debootstrap"
fi
work=$keep/abi
mkdir -p "$work"
if [ -n "$fresh" ]; then rm -rf "$work/build" "$work/mpich" "$work/intel-mpi"; fi
for one in mpich intel-mpi; do
  make_venv "$root/tests/mpi/$one-requirements.txt" "$work/$one" "$work/pip.log" ||
    skip "$one does not come from PyPI (see $work/pip.log)"
done
mpi=$work/mpich
title "$("$mpi/bin/mpichversion" | head -n 1 | tr -s '[:space:]' ' '), its mpicc_abi"
leave_build_of_another_tree "$work/build"
# Debian's HDF5 needs Debian's Open MPI.
configure_for_tests "$work/build" -DMPI_C_COMPILER="$mpi/bin/mpicc_abi" -DMPIEXEC_EXECUTABLE="$mpi/bin/mpiexec.hydra" \
  -DCAIRN_HDF5=OFF -DCAIRN_KOKKOS=OFF -DCAIRN_FORTRAN=OFF -DCAIRN_EXAMPLES=OFF ||
  { loud "FAILED: lane abi: the configure step" && exit 1; }
tests=(test_mpi_group test_mpi_lifetime test_mpi_conformance test_mpi_checkpoint test_mpi_io)
building "$work/build.log" nice cmake --build "$work/build" --parallel "$(cores)" --target "${tests[@]}" ||
  { loud "FAILED: lane abi: the build" && exit 1; }
# What was linked is libmpi_abi and no other MPI library.
for one in "${tests[@]}"; do
  needed=$(readelf -d "$work/build/bin/$one" | sed -n 's/.*NEEDED.*\[\(libmpi.*\)\]/\1/p')
  [ "$needed" = libmpi_abi.so.1 ] || die "$one needs ${needed:-no MPI}"
done
# MPICH polls without a pause, and there are more ranks than cores. Intel MPI does too, unless it is told to sleep.
cc -O2 -shared -fPIC "$root/lab/lanes/rest.c" -o "$work/rest.so" -ldl || die "rest.c does not compile"

# The same files in the chroot, with what they need of this system but MPI and the compiler's libraries, of which sid
# has its own. Tests find their tables by the name that they have here.
if [ "${libraries[-1]}" = openmpi ]; then
  rm -rf "$system/opt/abi" && mkdir -p "$system/opt/abi/lib" "$system$root/tests" &&
    mount --bind "$root/tests" "$system$root/tests" && mount -o remount,bind,ro "$system$root/tests" &&
    cp "${tests[@]/#/$work/build/bin/}" "$system/opt/abi/" &&
    LD_LIBRARY_PATH=$mpi/lib ldd "${tests[@]/#/$work/build/bin/}" |
    sed -n "\\|$mpi/|d; s|.*=> \\(/[^ ]*\\) .*|\\1|p" | grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so' |
    sort -u | xargs cp -L -t "$system/opt/abi/lib" || die "the programs cannot be copied into the chroot"
fi

# All have a launcher; the build's programs would find the library that they were linked with.
run_with() {
  local name=$1 ranks=$2 program=$3
  if [ "$name" = openmpi ]; then
    inside_settings=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1
      PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_mapby=:oversubscribe PRTE_MCA_bindto=none)
    inside "$system" timeout 1800 nice mpirun -n "$ranks" env LD_LIBRARY_PATH=/opt/abi/lib "/opt/abi/$program"
    return
  fi
  mkdir -p "$work/run-$name"
  (cd "$work/run-$name" && LD_LIBRARY_PATH=$work/$name/lib LD_PRELOAD=$work/rest.so I_MPI_FABRICS=shm \
    I_MPI_THREAD_YIELD=3 I_MPI_THREAD_SLEEP=50 timeout 1800 nice "$work/$name/bin/mpiexec" -n "$ranks" "$work/build/bin/$program")
}
version_of() { basename "$work"/*/lib/python*/site-packages/"$1"-*.dist-info | sed 's/^[^-]*-\(.*\)\.dist-info$/\1/'; }
versions="MPICH $(version_of mpich), Intel MPI $(version_of impi_rt)"
if [ "${libraries[-1]}" = openmpi ]; then
  versions+=", Open MPI $(inside "$system" mpirun --version | sed -n 's/.*(Open MPI) //p')"
fi
passed=0 failed=0
for name in "${libraries[@]}"; do
  for one in "${tests[@]}"; do
    for ranks in 1 2 3; do
      if run_with $name $ranks "$one" >"$work/log" 2>&1; then
        note "  $name, $one on $ranks: $(grep -m 1 'PASSED' "$work/log")"
        passed=$((passed + 1))
      else
        loud "  FAILED: $name, $one on $ranks" && tail -n 30 "$work/log"
        failed=$((failed + 1))
      fi
    done
  done
done
record --build "$work/build" "ran=one build of libmpi_abi: groups, save and restore, MPI-IO on 1 to 3 ranks" passed=$passed failed=$failed \
  "mpi=$versions"
[ $failed -eq 0 ]
exit
