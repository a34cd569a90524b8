#!/bin/sh
# A Tpetra vector on an unstructured mesh: saved on three ranks, restored under another partition on
# 2, 1 and 4, with the same values of the same nodes.
# usage: tpetra_mesh.sh PROGRAM WORK_DIRECTORY MPI_LAUNCHER…
set -eu
program=$1 work=$2
shift 2
rm -rf "$work"
mkdir -p "$work"
"$@" 3 "$program" "$work/run" 20 strips >"$work/saved.txt"
grep 'step *20 ' "$work/saved.txt" | sed 's/.*digest/digest/' >"$work/digest.txt"
test -s "$work/digest.txt"
"$@" 3 "$program" "$work/undisturbed" 40 strips | grep 'step *40 ' | sed 's/digest.*//' >"$work/expected.txt"
for ranks in 2 1 4; do
  cp -r "$work/run" "$work/on-$ranks"
  "$@" $ranks "$program" "$work/on-$ranks" 20 scattered >"$work/on-$ranks.txt"
  # The bits that were saved; and then, with sums in another order, the printed digits.
  grep 'step *20 ' "$work/on-$ranks.txt" | sed 's/.*digest/digest/' | diff -u "$work/digest.txt" -
  grep 'step *40 ' "$work/on-$ranks.txt" | sed 's/digest.*//' | diff -u "$work/expected.txt" -
done
rm -rf "$work"
