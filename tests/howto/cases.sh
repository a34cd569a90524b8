#!/bin/sh
# usage: cases.sh DIRECTORY bundle|hdf5 "PROGRAM;PROGRAM" LAUNCHER...
# The programs of examples/howto, one after the other, on other numbers of ranks: each goes on from what
# the one before has saved, in another language, and checks it. PYTHON runs what ends in .py.
set -eu
work=$1 format=$2
programs=$(echo "$3" | tr ';' ' ')
shift 3
launcher=$*
rm -rf "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
step=0 ranks=2
for program in $programs; do
  step=$((step + 1))
  interpreter=
  case $program in
    *.py) interpreter="$PYTHON -B" ;;
  esac
  told=$($launcher $ranks $interpreter "$program" "$work" "$format") || fail "$program: $told"
  echo "$told" | grep -q " saved step $step\$" || fail "$program: $told"
  [ $step -eq 1 ] || echo "$told" | grep -q "^goes on after step $((step - 1))\$" || fail "$program: $told"
  files=$(ls "$work"/*-$step/policies/ckpt-1.data-* | wc -l)  # files of 3,000 bytes for 8,000 a rank
  [ "$files" -ge $((3 * ranks)) ] || fail "$program: a policy made $files files"
  ranks=$((ranks % 3 + 1))
done
echo "each of $step programs went on from the one before"
