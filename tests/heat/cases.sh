#!/bin/sh
# usage: cases.sh DIRECTORY TOOL CONTINUE "PROGRAM;PROGRAM" LAUNCHER...
# Each program, an example in another language, is killed, and the next one goes on after it, on another
# number of ranks; then C++ does (CONTINUE). `cairn diff` compares with an undisturbed run.
set -eu
work=$1 tool=$2 continue=$3
programs=$(echo "$4" | tr ';' ' ')
shift 4
launcher=$*
rm -rf "$work"
mkdir -p "$work"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# on RANKS PROGRAM DIRECTORY STEPS
on() {
  ranks=$1
  shift
  $launcher "$ranks" "$@"
}
# newest DIRECTORY
newest() { sed -n 's/^model_checkpoint_path: "ckpt-\([0-9]*\)"$/\1/p' "$1/checkpoint"; }
# One rank of four is killed, hard, as soon as rank 0 has said that the second save is done.
# kill_one PROGRAM DIRECTORY
kill_one() {
  rm -f "$work"/pid.* "$work/lines"
  mkfifo "$work/lines"
  $launcher 4 sh -c 'echo $$ >"$0/pid.$$"; exec "$@"' "$work" "$1" "$2" 1000000 \
    >"$work/lines" 2>"$work/errors" &
  started=$! saved=0
  while read -r line; do
    case $line in
      "saved step "*) saved=$((saved + 1)) ;;
    esac
    [ $saved -ne 2 ] || kill -9 "$(cat "$work"/pid.* | tail -n 1)" 2>/dev/null || true
  done <"$work/lines"
  if wait $started; then fail "a killed job succeeded: $1"; fi
  [ $saved -ge 2 ] || fail "$1 saved $saved times: $(cat "$work/errors")"
}
# goes_on WHAT RANKS PROGRAM DIRECTORY STEPS: it must go on from the newest step
goes_on() {
  what=$1
  shift
  at=$(newest "$3")
  output=$(on "$@")
  restored=$(echo "$output" | sed -n 's/^restored step //p')
  [ "${restored:-0}" -ge "$at" ] || fail "$what: restored '$restored', the newest is $at"
}

for program in $programs; do
  kill_one "$program" "$work/run"
done
steps=$(newest "$work/run")
ranks=2
for program in $programs $programs "$continue"; do
  steps=$((steps + 15))
  goes_on "$program" $ranks "$program" "$work/run" $steps
  ranks=$((ranks + 1))
done
for program in $programs; do
  name=$work/undisturbed.$(basename "$program")
  on 1 "$program" "$name" $steps >/dev/null
  "$tool" diff "$name/ckpt-$steps" "$work/run/ckpt-$steps" ||
    fail "$(basename "$program"): other bits than an undisturbed run"
done
rm -rf "$work"
