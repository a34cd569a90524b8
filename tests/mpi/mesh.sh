#!/bin/sh
# The example as its users run it: on three ranks, then on two, then on four; beside it on one rank
# all the way, which must come to the same.
# usage: mesh.sh PROGRAM WORK_DIRECTORY MPI_LAUNCHER…
set -eu
program=$1 work=$2
shift 2
rm -rf "$work"
mkdir -p "$work"
for ranks in 3 2 4; do
  "$@" "$ranks" "$program" "$work/run" >>"$work/printed"
done
for turn in 1 2 3; do
  "$@" 1 "$program" "$work/alone" >>"$work/expected"
done
grep -q '^step 15: ' "$work/expected"
diff -u "$work/expected" "$work/printed"
rm -rf "$work"
