#!/bin/sh
# A Tpetra vector on an unstructured mesh: saved on three ranks, restored under another partition on
# 2, 1 and 4, with the same values of the same nodes.
# usage: tpetra_mesh.sh PROGRAM WORK_DIRECTORY "FORMAT…" MPI_LAUNCHER…
set -eu
program=$1 work=$2 formats=$3
shift 3
rm -rf "$work"
mkdir -p "$work"
digest() { grep "step *$1 " "$2" | sed 's/.*digest/digest/'; }
sums() { grep "step *$1 " "$2" | sed 's/digest.*//'; }
"$@" 3 "$program" "$work/undisturbed" 40 strips >"$work/undisturbed.txt"
digest 20 "$work/undisturbed.txt" >"$work/digest.txt"
sums 40 "$work/undisturbed.txt" >"$work/sums.txt"
test -s "$work/digest.txt" && test -s "$work/sums.txt"
for format in $formats; do
  here=$work/$format
  mkdir "$here"
  "$@" 3 "$program" "$here/saved" 20 strips "$format" >"$here/saved.txt"
  digest 20 "$here/saved.txt" | diff -u "$work/digest.txt" -
  for ranks in 2 1 4; do
    cp -r "$here/saved" "$here/on-$ranks"
    "$@" $ranks "$program" "$here/on-$ranks" 20 scattered "$format" >"$here/on-$ranks.txt"
    # First the bits that were saved; then, as sums are in another order, only the printed digits.
    digest 20 "$here/on-$ranks.txt" | diff -u "$work/digest.txt" -
    sums 40 "$here/on-$ranks.txt" | diff -u "$work/sums.txt" -
  done
done
rm -rf "$work"
