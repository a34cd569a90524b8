#!/bin/sh
# LAMMPS as judge: a melt that is saved on three ranks goes on on 2, 1 and 4 with the energies of an
# undisturbed run, in all printed digits.
# usage: lammps.sh PROGRAM WORK_DIRECTORY "FORMAT…" MPI_LAUNCHER…
set -eu
program=$1 work=$2 formats=$3
shift 3
rm -rf "$work"
mkdir -p "$work"
for format in $formats; do
  here=$work/$format
  mkdir "$here"
  "$@" 3 "$program" "$here/undisturbed" 100 "$format" >"$here/undisturbed.txt"
  "$@" 3 "$program" "$here/saved" 60 "$format" >"$here/saved.txt"
  grep -A9 'step *60 ' "$here/undisturbed.txt" >"$here/expected.txt"
  test "$(wc -l <"$here/expected.txt")" -eq 3
  for ranks in 2 1 4; do
    cp -r "$here/saved" "$here/on-$ranks"
    "$@" $ranks "$program" "$here/on-$ranks" 40 "$format" >"$here/on-$ranks.txt"
    diff -u "$here/expected.txt" "$here/on-$ranks.txt"
  done
done
rm -rf "$work"
