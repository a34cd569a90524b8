# Sourced by lane: all of Cairn with the compiler and the libraries of tomorrow.
. "$root/lab/lanes/system.sh"
enter_system sid "${sid_packages[@]}"

if [ -n "$shell" ]; then set -- bash; fi
whole=''
rm -f "$keep/build-$lane/record.json"
if [ $# -eq 0 ]; then
  whole=yes
  # TensorFlow has no packages for sid's Python; on Debian 12 it is tested with the same files.
  set -- scripts/test --quick --no-install --build-dir /opt/build
fi
# Tests run side by side, on more ranks than cores, so waiting threads must sleep.
inside_settings+=(OMP_PROC_BIND=false OMP_WAIT_POLICY=passive)
title "Debian sid: $*"
start=$SECONDS
inside "$system" sh -c 'cd /opt/cairn && exec nice "$@"' sh "$@"
status=$?
[ -z "$whole" ] || record_inside "$keep/build-$lane"
title "$* ended with status $status after $(since $start)"
exit $status
