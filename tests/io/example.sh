#!/bin/sh
# Runs the example of an application's own file system as its users do. usage: example.sh PROGRAM
# WORK_DIRECTORY
set -eu
program=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
"$program" "$work/run" >"$work/printed"
cat "$work/printed"
grep -q '^step 1: created [1-9][0-9]* files, renamed [1-9]' "$work/printed"
grep -q '^step 2: .*told to be full' "$work/printed"
grep -q '^restored step 1: u is 1$' "$work/printed"
[ ! -e "$work/run/ckpt-2.index" ]
if "$program" 2>"$work/complaint"; then
  echo "it took no directory for one"
  exit 1
fi
grep -q 'usage: file_system DIRECTORY' "$work/complaint"
rm -rf "$work"
