#!/bin/sh
# The last save of a job, which nobody waits for: what the job says of it, and what the next one says.
#   last_save.sh DIRECTORY PROGRAM
# `PROGRAM DIRECTORY last` says "restored STEP" (-1: nothing), begins to save step STEP + 2, of some MiB, and ends.
directory=$1 program=$2
rm -rf "$directory"
says() {  # says TEXT...: the last run has printed it
  for text in "$@"; do
    grep -q -e "$text" "$directory.out" || { echo "no '$text' in:" && cat "$directory.out" && exit 1; }
  done
}
run() { "$program" "$directory" last >"$directory.out" 2>&1 || { cat "$directory.out" && exit 1; }; }

export GFORTRAN_ERROR_BACKTRACE=0 # its handler of signals would end a program whose file may not grow
(
  trap '' XFSZ
  ulimit -f 1024
  run
) || exit 1
says "restored -1" "the asynchronous save of step 1 failed on rank 0 when no call was left to throw it: "
run
says "restored -1" "removed from .*$directory: .* a save.* that did not finish: " \
  "the asynchronous save of step 1 is not committed: the manager ended before that"
run
says "restored 1" "the asynchronous save of step 3 is not committed: the manager ended before that"
