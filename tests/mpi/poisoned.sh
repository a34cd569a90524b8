#!/bin/sh
# poisoned.sh PROGRAM TOOL CAIRN-JOB DIRECTORY LAUNCHER...: a program that aborts at each restart on the
# same checkpoint comes to its end from an older one, started by hand and by cairn-job.
set -u
program=$1 tool=$2 cairn_job=$3 work=$4
shift 4
fail() {
  echo "FAILED: $*" >&2
  cat "$work"/log* >&2
  exit 1
}
# Steps 10 and 20 are saved, and 20 has the poison; then 3 starts fail, and one goes on from step
# 10.
by_hand() { "$@" 2 "$program" "$work/by-hand" 40 20; }
# The same number of jobs, one after the other; status 75 of each asks for the next.
by_cairn_job() {
  "$cairn_job" --checkpoints "$work/by-cairn-job" --no-requeue -- "$@" 2 "$program" "$work/by-cairn-job" 40 20
}
rm -rf "$work"
mkdir -p "$work/bin"
ln -s "$tool" "$work/bin/cairn"
PATH=$work/bin:$PATH
export PATH
unset SLURM_JOB_ID SLURM_RESTART_COUNT
for way in by_hand by_cairn_job; do
  for start in 1 2 3 4 5; do
    "$way" "$@" >"$work/log" 2>&1 && break
    [ "$start" -lt 5 ] || fail "$way: start 5 does not come to an end"
    [ "$start" -eq 1 ] || grep -q 'restored step 20, passed over 0' "$work/log" || fail "$way: start $start"
  done
  [ "$start" -eq 5 ] || fail "$way: it ended at start $start"
  grep -q 'restored step 10, passed over 1' "$work/log" || fail "$way: the last start"
  grep -q 'done: step 40, value 40' "$work/log" || fail "$way: the end"
done
# Only cairn-job knows this: it was told to end the program, which dies of that.
"$cairn_job" --checkpoints "$work/by-cairn-job" --no-requeue -- \
  "$@" 2 "$program" "$work/by-cairn-job" --wait --deaf >"$work/log" 2>&1 &
job=$!
until grep -q 'waits at step 40' "$work/log"; do sleep 0.1; done
kill -TERM $job
wait $job
grep -q '^signals TERM$' "$work/by-cairn-job/.cairn/ended" || fail "how it ended is not noted"
"$@" 2 "$program" "$work/by-cairn-job" --look >"$work/log" 2>&1 || fail "a look"
"$tool" ls "$work/by-cairn-job" >"$work/log" || fail "cairn ls"
! grep -q 'in vain' "$work/log" || fail "the end that cairn-job was told to make has counted"
