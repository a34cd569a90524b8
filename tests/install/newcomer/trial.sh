#!/usr/bin/env bash
# Does what README.md and docs/start.md tell a newcomer, by their own commands: runs the demo, installs Cairn, builds a
# program of one's own, kills it on 3 ranks, goes on with 2. As root, since it installs; on a bare Debian:
#
#   scripts/fresh-machine tests/install/newcomer/trial.sh
#
# The exit status is 0 if the program ends with the bits of an undisturbed run, all within 20 minutes.
set -euo pipefail
cd "$(dirname "$0")/../../.."
own=$PWD/tests/install/newcomer page=$PWD/docs/start.md work=$(mktemp -d "${TMPDIR:-/tmp}/cairn-trial.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Says how long all steps together took: by the clock, and of the cores.
step() {
  printf '\n== %s\n' "$*"
  "$@"
  times >"$work/times"
  printf -- '-- %d s until now; of the cores %s\n' $SECONDS "$(tail -n 1 "$work/times")"
}
# The first block of the page that is indented, and the first in CMake's language.
shell_block() { awk '/^    / { print substr($0, 5); found = 1; next } found { exit }' "$page"; }
cmake_block() { awk '/^```cmake$/ { inside = 1; next } inside && /^```$/ { exit } inside' "$page"; }

step scripts/demo
shell_block | sed 's/\bsudo //g' >"$work/install.sh"  # a bare Debian has no sudo
cat "$work/install.sh"
step bash -e "$work/install.sh" < <(yes)  # to apt's question

cd "$work"
cp "$own/membrane.cpp" app.cpp
{
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(app LANGUAGES CXX)' 'add_executable(app app.cpp)'
  cmake_block
} >CMakeLists.txt
cat CMakeLists.txt
step cmake -B build -G Ninja
step cmake --build build
. "$own/../../../scripts/mpi-env.sh"

printf '\n== 3 ranks, killed with kill -9 once there is a checkpoint\n'
mpirun -n 3 build/app run/ckpt 1000000 &
until compgen -G 'run/ckpt/*.index' >/dev/null; do kill -0 $! && sleep 0.1; done
kill -9 $!
wait $! || true
step cairn ls run/ckpt
last=$(printf '%s\n' run/ckpt/*.index | sed 's/.*-\([0-9]*\)\.index/\1/' | sort -n | tail -n 1)
mpirun -n 2 build/app run/ckpt $((last + 1000)) restarted.raw | tee restarted.log
grep -qE '^2 ranks go on from step [1-9]' restarted.log
step mpirun -n 1 build/app undisturbed $((last + 1000)) undisturbed.raw
cmp restarted.raw undisturbed.raw
step cairn verify run/ckpt
printf '\nThe same bits, %d min %d s after the beginning\n' $((SECONDS / 60)) $((SECONDS % 60))
[ $SECONDS -lt 1200 ]
