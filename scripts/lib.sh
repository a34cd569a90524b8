# Sourced by the scripts: messages, and installing what is missing. Sets $root.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/scripts/mpi-env.sh"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' blue=$'\e[36m' plain=$'\e[0m'
else
  bold='' dim='' red='' green='' yellow='' blue='' plain=''
fi

title() { printf '\n%s== %s%s\n' "$bold$blue" "$*" "$plain"; }
note() { printf '%s\n' "$*"; }
loud() { printf '%s%s%s\n' "$bold$yellow" "$*" "$plain"; }
die() {
  printf '%s%s%s\n' "$bold$red" "$*" "$plain" >&2
  exit 1
}

# The comment block at the head of a script is its help.
print_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# nproc follows OpenMP's settings, which jobs.sh makes for the programs it runs.
cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || echo 2; }

# The names of Debian packages. A program that was installed by other means does not count as
# missing.
build_packages=(g++ cmake ninja-build libopenmpi-dev openmpi-bin libtrilinos-kokkos-dev
  libsnappy-dev libprotobuf-dev protobuf-compiler libisal-dev libcli11-dev
  nlohmann-json3-dev libpng-dev)
# Packages for buckets; a build goes on without them, and scripts/demo needs none.
bucket_packages=(libcurl4-openssl-dev libssl-dev libpugixml-dev)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev libhdf5-openmpi-dev hdf5-tools
  zlib1g-dev libzstd-dev libblosc-dev
  abigail-tools ca-certificates python3 python3-venv python3-dev pybind11-dev gfortran clang libclang-rt-dev lld strace)
# Packages for the tests under Slurm; scripts go on without them.
slurm_packages=(slurmctld slurmd slurm-client munge)
# Packages of single campaigns.
power_packages=(libfuse3-dev pkg-config xfsprogs btrfs-progs)
shared_packages=(libfuse3-dev pkg-config sshfs openssh-client openssh-server glusterfs-server glusterfs-client
  ceph-mon ceph-osd ceph-mds ceph-mgr ceph-common ceph-fuse iproute2)
# Virtual machines with NFS of Linux, for lab/campaigns/shared.
machine_packages=(qemu-system-x86 linux-image-amd64 busybox-static cpio kmod nfs-kernel-server nfs-common rpcbind
  openssh-client openssh-server iproute2)
mutant_packages=(python3-clang)

has_program() { command -v "$1" >/dev/null 2>&1; }

is_there() {
  case $1 in
    g++) has_program c++ || has_program g++ ;;
    cmake) has_program cmake && cmake -P "$root/scripts/cmake-version.cmake" >/dev/null 2>&1 ;;
    ninja-build) has_program ninja ;;
    openmpi-bin) has_program mpirun ;;
    libopenmpi-dev) has_program mpicc ;;
    clang) has_program clang++ ;;
    gfortran) has_program gfortran ;;
    lld) has_program ld.lld ;;
    hdf5-tools) has_program h5dump ;;
    protobuf-compiler) has_program protoc ;;
    python3) has_program python3 ;;
    slurmctld | slurmd) has_program "$1" || [ -x "/usr/sbin/$1" ] ;;
    slurm-client) has_program sbatch ;;
    munge) has_program munged || [ -x /usr/sbin/munged ] ;;
    python3-dev)
      has_program python3 && python3 -c 'import os, sysconfig
raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ;;
    python3-venv) has_program python3 && python3 -c 'import venv, ensurepip' 2>/dev/null ;;
    *) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
  esac
}

# missing_of PACKAGE...: those that are not there, a line each.
missing_of() {
  local package
  for package in "$@"; do is_there "$package" || echo "$package"; done
}

# install_missing PACKAGE...: installs by apt, as root or with sudo; if neither is possible, prints
# the command to type.
install_missing() {
  local missing=() as_root=()
  if ! has_program apt-get || ! has_program dpkg-query; then
    loud "No apt here: going on with what is installed. On Debian these would be needed: $*"
    return
  fi
  mapfile -t missing < <(missing_of "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  title "Installing ${#missing[@]} missing packages"
  note "${missing[*]}"
  local line="apt-get install --yes --no-install-recommends ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    if has_program sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      die "They can be installed by root only. Type this and start again:
  sudo apt-get update && sudo $line"
    fi
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  local log before
  log=$(mktemp)
  # An interrupted apt may end as if all were well, and bash then takes the Ctrl-C as handled.
  before=$(trap -p INT)
  trap 'rm -f "$log"; exit 130' INT
  # shellcheck disable=SC2086
  if ! { "${as_root[@]}" apt-get -o Acquire::Retries=3 update &&
    "${as_root[@]}" $line; } </dev/null >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    die "apt failed. Its last lines are above; as root the command was: $line"
  fi
  eval "${before:-trap - INT}"
  rm -f "$log"
}

# quietly LOG COMMAND...: writes the output to LOG, and shows its end if the command fails.
quietly() {
  local log=$1
  shift
  "$@" </dev/null >"$log" 2>&1 && return 0
  complain_of "$log" $?
}
complain_of() {
  local log=$1 status=$2
  printf '%s' "$red" >&2
  grep -nE -A3 -m 20 'error|Error|FAILED' "$log" | head -n 60 >&2
  tail -n 25 "$log" >&2
  printf '%s\n' "$plain(all of it: $log)" >&2
  return $status
}

# building LOG COMMAND...: like quietly, and shows the progress of the build, by ninja's [n/m] or
# make's percentage: on a terminal in one line, which disappears at the end, otherwise in one line
# each half minute.
note_after=30
building() {
  local log=$1 status
  shift
  NINJA_STATUS='[%f/%t] ' "$@" </dev/null 2>&1 | tee "$log" | show_progress
  status=${PIPESTATUS[0]}
  [ "$status" -eq 0 ] || complain_of "$log" "$status"
}
show_progress() {
  local line part='' far='' status=0 start=$SECONDS next=$((SECONDS + note_after))
  while [ $status -eq 0 ] || [ $status -gt 128 ]; do  # above 128: no output for a second
    IFS= read -r -t 1 line
    status=$?
    part+=$line
    if [[ $part =~ ^\[\ *([0-9]+(/[0-9]+|%))\] ]]; then far=${BASH_REMATCH[1]/"/"/ of }; fi
    [ $status -gt 128 ] || part=''
    if [ -z "$far" ]; then
      continue
    elif [ -t 1 ]; then
      printf '\r%sbuilding: %s, %s%s\e[K' "$dim" "$far" "$(since $start)" "$plain"
    elif [ $SECONDS -ge $next ]; then
      next=$((SECONDS + note_after))
      note "building: $far after $(since $start)"
    fi
  done
  if [ -t 1 ] && [ -n "$far" ]; then printf '\r\e[K'; fi
}

# Seconds since a moment taken from $SECONDS, as "1 m 05 s".
since() {
  local seconds=$((SECONDS - $1))
  if [ $seconds -ge 60 ]; then
    printf '%d m %02d s' $((seconds / 60)) $((seconds % 60))
  else
    printf '%d s' $seconds
  fi
}

# The PyPI packages that the tests with TensorFlow need.
interop_requirements=$root/tests/interop/requirements.txt
# Locks (scripts/lock-python) are valid for this Python and newer ones.
oldest_locked_python=3.11
# make_venv LOCK VENV LOG [BASE]: makes a virtual environment with these packages, on top of those
# of BASE, unless it is there. Each file must have one of the hashes in LOCK. Exit status: 0 it is
# there, 2 no virtual environment can be made, 3 PyPI is out of reach, 4 the packages do not
# install.
make_venv() {
  local requirements=$1 venv=$2 log=$3 base=${4:-} hashes=(--require-hashes)
  if cmp -s "$requirements" "$venv/installed"; then return 0; fi
  rm -rf "$venv"
  python3 -m venv "$venv" >"$log" 2>&1 || return 2
  [ -z "$base" ] || (cd "$venv"/lib/python3* && printf '%s\n' "$base"/lib/python3*/site-packages >site-packages/base.pth)
  local pip=("$venv/bin/python" -m pip --disable-pip-version-check --no-input --retries 2)
  local list=$requirements
  if ! "$venv/bin/python" -c "import sys; sys.exit(sys.version_info[:2] < (${oldest_locked_python/./, }))"; then
    list=${requirements%.txt}.in hashes=()
    loud "WITHOUT HASHES: this Python is older than $oldest_locked_python, and $requirements is no lock for it"
  fi
  # Python compiles modules when it imports them, which is less than half of these.
  if "${pip[@]}" install --no-compile "${hashes[@]}" -r "$list" </dev/null >"$log" 2>&1; then
    cp "$requirements" "$venv/installed"
    return 0
  fi
  # A package that PyPI always has tells whether PyPI is out of reach or our list is wrong.
  "${pip[@]}" download --quiet --no-deps --dest "$log.probe" pip </dev/null >>"$log" 2>&1 ||
    return 3
  rm -rf "$log.probe"
  return 4
}
