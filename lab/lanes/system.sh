# Sourced by the lanes that run in a chroot: a Debian of the suite that they name, in $system, with
# packages. Lanes of one suite share it; each has a build of its own.

# The names of Debian's packages. A package that sid lacks for a while is left out by the build,
# which reports it, or fails.
common_packages=(ca-certificates g++ gfortran cmake ninja-build ccache git pkg-config procps strace
  python3 python3-venv python3-dev pybind11-dev
  libsnappy-dev libprotobuf-dev protobuf-compiler libisal-dev libcli11-dev nlohmann-json3-dev
  libpng-dev libgtest-dev libgmock-dev)
sid_packages=("${common_packages[@]}" libopenmpi-dev openmpi-bin libhdf5-openmpi-dev hdf5-tools
  libkokkos-dev libbenchmark-dev)

# The mirror may be a snapshot, whose lists have expired.
system_apt() {
  inside "$system" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Check-Valid-Until=false \
    -o Acquire::Retries=3 -o Dpkg::Options::=--force-unsafe-io --yes --no-install-recommends "$@"
}

# enter_system SUITE PACKAGE...: makes the system if it is missing, installs packages and mounts;
# skips the lane if that fails.
enter_system() {
  local suite=$1
  shift
  system=$keep/$suite
  [ "$(id -u)" -eq 0 ] || skip "a chroot needs root"
  has_program debootstrap || skip "debootstrap is missing; as root: apt-get install debootstrap"
  own_namespace ${arguments[@]+"${arguments[@]}"} || skip "no mount namespace can be made here"
  exec 9>"$system.lock"
  flock --nonblock 9 || skip "another lane is at work in $system"
  local start=$SECONDS log=$system.log
  if [ -n "$fresh" ] || [ ! -e "$system.made" ]; then
    title "A bare Debian $suite"
    rm -f "$system.made"
    remove_system "$system" && remove_builds || skip "cannot remove $system"
    mkdir -p "$system"
    make_system "$suite" "$system" "$log" || skip "debootstrap of $suite failed (see $log)"
    date -u +%F >"$system.made"
  fi
  trap leave_system EXIT
  trap 'exit 130' INT TERM HUP
  # The tree is mounted read-only: a build or test that writes to it is a defect.
  mkdir -p "$system/opt/cairn" "$system/opt/build" "$system/opt/ccache" "$keep/build-$lane" "$keep/ccache"
  mount_system "$system" && mount --bind "$root" "$system/opt/cairn" &&
    mount -o remount,bind,ro "$system/opt/cairn" &&
    mount --bind "$keep/build-$lane" "$system/opt/build" &&
    mount --bind "$keep/ccache" "$system/opt/ccache" || skip "cannot mount what the chroot needs"
  inside_settings=(CCACHE_DIR=/opt/ccache CCACHE_MAXSIZE=2G)
  if ! cmp -s "$system.$lane" <(printf '%s\n' "$@"); then
    note "installing packages of $suite ..."
    quietly "$log" system_apt update && quietly "$log" system_apt install "$@" ||
      skip "packages of $suite do not install today (see $log)"
    copy_settings "$system"
    rm -f "$keep/build-$lane"/*/CMakeCache.txt  # what was missing is looked for again
    printf '%s\n' "$@" >"$system.$lane"
  fi
  note "$suite of $(cat "$system.made"), ready after $(since $start)"
}
# SUITE.LANE lists the packages of a lane in a system. Its build belongs to that system.
remove_builds() {
  local other
  for other in modern hip libcxx mpich abi; do
    [ ! -e "$system.$other" ] || { rm -rf "$keep/build-$other" && rm -f "$system.$other"; } || return 1
  done
}
leave_system() {
  trap '' INT TERM HUP
  unmount_system "$system" || loud "something stays mounted below $system until this process ends"
}
