#!/bin/sh
# last_byte.sh PROGRAM DIRECTORY FORMAT LAUNCHER...: a job that is killed right after the last byte
# of an asynchronous save has lost nothing.
set -eu
program=$1 work=$2 format=$3
shift 3
rm -rf "$work"
if "$@" 4 "$program" "$work" "$format" --kill >"$work.log" 2>&1; then
  echo "FAILED: a killed job succeeded" >&2
  exit 1
fi
if ls "$work" | grep -q 'ckpt-20\.\(index\|h5\)$'; then
  echo "FAILED: step 20 was committed before the kill" >&2
  exit 1
fi
for ranks in 3 1; do
  found=$("$@" $ranks "$program" "$work" "$format")
  if [ "$found" != "step 20, 0 wrong" ]; then
    echo "FAILED: on $ranks ranks: $found; $(cat "$work.log")" >&2
    exit 1
  fi
done
