# Sourced by lane: tests all that calls MPI, with MPICH (its MPI-IO is ROMIO) in place of Open MPI.
# In a chroot, because libmpich-dev would change mpicc, mpirun and h5pcc of this machine.
. "$root/lab/lanes/system.sh"
enter_system bookworm "${common_packages[@]}" mpich libmpich-dev libhdf5-mpich-dev hdf5-tools \
  clang libclang-rt-dev lld

whole=''
[ $# -gt 0 ] || [ -n "$shell" ] || { whole=yes && set -- bash lab/lanes/mpich-inside.sh; }
rm -f "$keep/build-$lane/record.json"
if [ -n "$shell" ]; then set -- bash; fi
title "Debian 12 with MPICH: $*"
start=$SECONDS
inside "$system" sh -c 'cd /opt/cairn && exec nice "$@"' sh "$@"
status=$?
[ -z "$whole" ] || record_inside "$keep/build-$lane"
title "$* ended with status $status after $(since $start)"
exit $status
