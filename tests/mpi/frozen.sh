#!/bin/sh
# Weights that are written once, on the same ranks over a restart, and again when they change, by the
# rank that has them.
# usage: frozen.sh PROGRAM WORK_DIRECTORY MPI_LAUNCHER…
set -eu
program=$1 work=$2
shift 2
rm -rf "$work"
expect() { test "$1" = "$2" || { echo "wanted: $2, got: $1"; exit 1; }; }
expect "$("$@" 3 "$program" "$work")" "step 1: 197384 bytes written
step 2: 776 bytes written"
expect "$("$@" 3 "$program" "$work" change)" "step 3: 776 bytes written
step 4: 66312 bytes written"
expect "$("$@" 2 "$program" "$work")" "step 5: 197384 bytes written
step 6: 776 bytes written"
test "$(ls -i "$work/ckpt-2.data-00003-of-00007" | cut -d' ' -f1)" = \
     "$(ls -i "$work/ckpt-4.data-00003-of-00007" | cut -d' ' -f1)"
rm -rf "$work"
