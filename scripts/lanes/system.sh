# Sourced by the lanes that run in a chroot. Sets it up as $system and enters it; skips the lane when
# that fails.

# Debian's names. What is not in sid for a while is left out by the build, which says so, or fails.
sid_packages=(ca-certificates g++ cmake ninja-build ccache git python3 python3-venv procps
  libopenmpi-dev openmpi-bin libhdf5-openmpi-dev hdf5-tools libkokkos-dev
  libsnappy-dev libprotobuf-dev protobuf-compiler libisal-dev libcli11-dev nlohmann-json3-dev
  libpng-dev libgtest-dev libgmock-dev libbenchmark-dev)

# The mirror may be a snapshot, whose lists are out of date by their own word.
sid_apt() {
  inside "$system" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Check-Valid-Until=false \
    -o Acquire::Retries=3 --yes --no-install-recommends "$@"
}

# enter_sid PACKAGE...
enter_sid() {
  [ "$(id -u)" -eq 0 ] || skip "a chroot needs root"
  has_program debootstrap || skip "debootstrap is missing; as root: apt-get install debootstrap"
  own_namespace ${arguments[@]+"${arguments[@]}"} || skip "no mount namespace can be made here"
  exec 9>"$keep/lock"
  flock --nonblock 9 || skip "another lane is at work in $keep"
  local start=$SECONDS log=$keep/sid.log
  if [ -n "$fresh" ] || [ ! -e "$keep/sid.made" ]; then
    title "A bare Debian sid"
    rm -f "$keep/sid.made" "$keep"/*.installed
    { remove_system "$system" && rm -rf "$keep"/build-*; } || skip "cannot remove $system"
    mkdir -p "$system"
    make_system sid "$system" "$log" || skip "debootstrap of sid failed (see $log)"
    date -u +%F >"$keep/sid.made"
  fi
  trap leave_sid EXIT
  trap 'exit 130' INT TERM HUP
  # The tree is there to read only: a build or test that writes to it is a defect.
  mkdir -p "$system/opt/cairn" "$system/opt/build" "$system/opt/ccache" "$keep/build-$lane" "$keep/ccache"
  mount_system "$system" && mount --bind "$root" "$system/opt/cairn" &&
    mount -o remount,bind,ro "$system/opt/cairn" &&
    mount --bind "$keep/build-$lane" "$system/opt/build" &&
    mount --bind "$keep/ccache" "$system/opt/ccache" || skip "cannot mount what the chroot needs"
  inside_settings=(CCACHE_DIR=/opt/ccache CCACHE_MAXSIZE=2G)
  if ! cmp -s "$keep/$lane.installed" <(printf '%s\n' "$@"); then
    note "installing packages of sid ..."
    quietly "$log" sid_apt update && quietly "$log" sid_apt install "$@" ||
      skip "packages of sid do not install today (see $log)"
    copy_settings "$system"
    printf '%s\n' "$@" >"$keep/$lane.installed"
  fi
  note "sid of $(cat "$keep/sid.made"), ready after $(since $start)"
}
leave_sid() {
  trap '' INT TERM HUP
  unmount_system "$system" || loud "something stays mounted below $system until this process ends"
}
