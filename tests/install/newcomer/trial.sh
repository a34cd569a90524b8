#!/usr/bin/env bash
# Does what README.md and docs/start.md tell a newcomer, by their own commands: runs the demo, installs Cairn, builds a
# program of one's own, kills it on 3 ranks, goes on with 2. As root, since it installs; on a bare Debian:
#
#   scripts/fresh-machine tests/install/newcomer/trial.sh
#
# The exit status is 0 if the program ends with the bits of an undisturbed run, and all steps together took less than 20
# minutes of one core: so much a newcomer waits at most, and a busy machine makes no difference.
set -euo pipefail
cd "$(dirname "$0")/../../.."
own=$PWD/tests/install/newcomer page=$PWD/docs/start.md work=$(mktemp -d "${TMPDIR:-/tmp}/cairn-trial.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Says how long all steps together took: by the clock, and of the cores.
step() {
  printf '\n== %s\n' "$*"
  "$@"
  times >"$work/times"  # the last line has user and system time of all processes, as 9m25.070s 0m43.422s
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
mpirun -n 3 build/app run/ckpt 5000 &
until compgen -G 'run/ckpt/*.index' >/dev/null; do kill -0 $! && sleep 0.1; done
kill -9 $!
wait $! || true
step cairn ls run/ckpt
mpirun -n 2 build/app run/ckpt 6000 restarted.raw | tee restarted.log
grep -qE '^2 ranks go on from step [1-9]' restarted.log
mpirun -n 1 build/app undisturbed 6000 undisturbed.raw
cmp restarted.raw undisturbed.raw
step cairn verify run/ckpt
printf '\nThe same bits, %d min %d s after the beginning\n' $((SECONDS / 60)) $((SECONDS % 60))
tail -n 1 "$work/times" | awk -F '[ms ]+' '{ exit $1 * 60 + $2 + $3 * 60 + $4 >= 1200 }'
