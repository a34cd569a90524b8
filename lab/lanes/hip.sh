# Sourced by lane: compiles all that includes Kokkos for HIP, in the chroot.
. "$root/lab/lanes/system.sh"
enter_system sid "${sid_packages[@]}" hipcc libamdhip64-dev
title "Debian sid: $(inside "$system" hipcc --version | head -n 1)"
rm -f "$keep/build-hip/record.json"
inside "$system" nice bash /opt/cairn/lab/lanes/hip-inside.sh ${fresh:+--fresh}
status=$?
[ $status -ne 77 ] || skip "sid's hipcc does not compile sid's Kokkos by itself (see $keep/build-hip/probe.log)"
record_inside "$keep/build-hip"
exit $status
