# Sourced by fresh-machine and lane after lib.sh: sets up a Debian in a directory, used by chroot.
# Root only.

# own_namespace ARGUMENT...: runs the same script again in a mount namespace of its own. This
# machine never sees what is mounted there, and the mounts are gone when the script ends, however it
# ends. Fails where that is not allowed.
own_namespace() {
  [ -z "${CAIRN_OWN_NAMESPACE:-}" ] || return 0
  unshare --mount --propagation private true 2>/dev/null || return 1
  CAIRN_OWN_NAMESPACE=1 exec unshare --mount --propagation private "$BASH" "$0" "$@"
}

# The Debian mirror of this machine, from either format of its sources.
debian_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list \
    2>/dev/null | sed -nE -e 's/^URIs:[[:space:]]*([^[:space:]]+).*/\1/p' \
    -e 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+).*/\2/p' |
    grep -E '/debian/?$' | head -n 1
}

# make_system SUITE DIRECTORY LOG: makes debootstrap's minimal system, which reaches packages as
# this machine does.
make_system() {
  local suite=$1 system=$2 log=$3 mirror host_suite
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || { loud "no Debian mirror is configured in /etc/apt" && return 1; }
  quietly "$log" debootstrap --variant=minbase "$suite" "$system" "$mirror" || return 1
  # The chroot uses this machine's mirrors, but the suite that was asked for.
  host_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  cp -a /etc/apt/apt.conf.d/. "$system/etc/apt/apt.conf.d/"
  if [ "$suite" = "$host_suite" ]; then
    rm -f "$system/etc/apt/sources.list"
    cp -a /etc/apt/sources.list "$system/etc/apt/" 2>/dev/null
    cp -a /etc/apt/sources.list.d /etc/apt/trusted.gpg.d /etc/apt/keyrings "$system/etc/apt/" 2>/dev/null
  fi
  copy_settings "$system"
}
copy_settings() {
  local system=$1 file
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf "${HOME:-/nowhere}/.config/pip/pip.conf" \
    "${HOME:-/nowhere}/.pip/pip.conf" /etc/ssl/certs/ca-certificates.crt; do
    [ -f "$file" ] || continue
    mkdir -p "$system$(dirname "$file")" && cp -L "$file" "$system$file"
  done
}

# Programs need /proc, terminals and shared memory; hwloc needs /sys.
mount_system() {
  local system=$1
  mount -t proc proc "$system/proc" && mount --bind /sys "$system/sys" &&
    mount --bind /dev "$system/dev" && mount --bind /dev/pts "$system/dev/pts" &&
    mount -t tmpfs tmpfs "$system/dev/shm"
}

# unmount_system DIRECTORY: unmounts all that is mounted below, deepest first. Fails if something
# stays mounted.
unmount_system() {
  local system=$1 place i
  for i in 1 2 3; do
    while read -r place; do
      umount "$place" 2>/dev/null || umount --lazy "$place"
    done < <(mounts_below "$system" | sort -r)
  done
  [ -z "$(mounts_below "$system")" ]
}
mounts_below() { awk -v at="$1/" 'index($2, at) == 1 {print $2}' /proc/self/mounts; }

# remove_system DIRECTORY: removes it, but never what is mounted in it.
remove_system() { unmount_system "$1" && rm -rf --one-file-system "$1"; }

# inside DIRECTORY COMMAND...: runs COMMAND in the chroot. Only the settings that lead to package
# servers are passed; the environment is otherwise empty. $inside_settings may hold more.
inside_settings=()
inside() {
  local system=$1 name
  local settings=(HOME="${HOME:-/}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    LANG=C.UTF-8 TERM="${TERM:-dumb}" CI=true)
  shift
  while IFS= read -r name; do
    settings+=("$name=${!name}")
  done < <(compgen -e |
    grep -iE '^(PIP_.*|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|(https?|no|all)_proxy)$')
  chroot "$system" env -i "${settings[@]}" ${inside_settings[@]+"${inside_settings[@]}"} "$@"
}
