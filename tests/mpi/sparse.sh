#!/bin/sh
# Absorbing layers, saved on three ranks and restored on 2, 1 and 4, then thicker: what nobody held
# is zero.
# usage: sparse.sh PROGRAM WORK_DIRECTORY MPI_LAUNCHER…
set -eu
program=$1 work=$2
shift 2
rm -rf "$work"
expect() { test "$1" = "$2" || { echo "wanted: $2, got: $1"; exit 1; }; }
expect "$("$@" 3 "$program" "$work" 2)" "step 0: 144 cells, sum 0"
expect "$("$@" 2 "$program" "$work" 2)" "step 1: 144 cells, sum 144, 0 new"
expect "$("$@" 1 "$program" "$work" 2)" "step 2: 144 cells, sum 288, 0 new"
expect "$("$@" 4 "$program" "$work" 4)" "step 3: 256 cells, sum 432, 112 new"
rm -rf "$work"
