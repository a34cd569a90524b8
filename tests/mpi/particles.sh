#!/bin/sh
# The example as its users run it: on three ranks, then on two, then on four.
# usage: particles.sh PROGRAM WORK_DIRECTORY MPI_LAUNCHER…
set -eu
program=$1 work=$2
shift 2
rm -rf "$work"
mkdir -p "$work"
for ranks in 3 2 4; do
  "$@" "$ranks" "$program" "$work/run" >>"$work/printed"
done
cat >"$work/expected" <<'END'
step 0, particles: 0 0 0
step 5, particles: 6 5 4
  2 stays: one of the best 1, metric 0.1
  4 stays: a multiple of 4 steps
  5 stays: pinned
  6 stays: the newest
kept: temperature, unused: generator/rank-00000-of-00003 …
step 5, particles: 8 7
step 10, particles: 12 13
  2 stays: one of the best 1, metric 0.1
  4 stays: a multiple of 4 steps
  5 stays: pinned
  8 stays: a multiple of 4 steps
  9 goes: not one of the last 2
  10 stays: pinned
  11 stays: the newest
kept: temperature, unused: generator/rank-00000-of-00002 …
step 10, particles: 7 6 6 6
step 15, particles: 12 10 12 11
  2 stays: one of the best 1, metric 0.1
  4 stays: a multiple of 4 steps
  5 stays: pinned
  8 stays: a multiple of 4 steps
  10 stays: pinned
  12 stays: a multiple of 4 steps
  14 goes: not one of the last 2
  15 stays: pinned
  16 stays: the newest
kept: temperature, unused: generator/rank-00000-of-00004 …
END
diff -u "$work/expected" "$work/printed"
rm -rf "$work"
