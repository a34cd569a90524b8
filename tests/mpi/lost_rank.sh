#!/bin/sh
# A job that a failed transfer ends: it says why, and leaves the older checkpoint.
# usage: lost_rank.sh PROGRAM CAIRN WORK LAUNCHER...
set -u
program=$1 cairn=$2 work=$3
shift 3
rm -rf "$work"
mkdir -p "$work"
if CAIRN_TEST_DIRECTORY=$work/run "$@" "$program" > "$work/output" 2>&1; then
  echo "the job ended well"
  exit 1
fi
cat "$work/output"
grep -q "cairn: error: rank 2: dataset 'u' cannot be written to .*the other ranks wait for this one in libhdf5" \
  "$work/output" || exit 1
test ! -e "$work/run/ckpt-2.h5" || exit 1
"$cairn" verify "$work/run/ckpt-1"
