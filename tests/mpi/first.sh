#!/bin/sh
# The program of README: three ranks run it to its end; its last checkpoint is lost, and two go on.
# usage: first.sh PROGRAM WORK_DIRECTORY LAUNCHER...
set -eu
program=$1 work=$2
shift 2
rm -rf "$work"
mkdir -p "$work"
cd "$work"
"$@" 3 "$program"
for step in 80 90 100; do test -e run/ckpt/ckpt-$step.index; done
test "$(ls run/ckpt/*.index | wc -l)" -eq 3  # keep.last
rm run/ckpt/ckpt-100.*
"$@" 2 "$program"
test -e run/ckpt/ckpt-100.index
