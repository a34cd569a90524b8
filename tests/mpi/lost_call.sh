#!/bin/sh
# A call of MPI that fails on one rank ends the job, whatever the others wait for.
# usage: lost_call.sh PROGRAM WORK LAUNCHER...
set -u
program=$1 work=$2
shift 2
mkdir -p "$work"
failed=0
while read -r operation function call rank; do
  echo "== $operation, $function, call $call, rank $rank"
  if "$@" "$program" "$operation" "$function" "$call" "$rank" < /dev/null \
      > "$work/output" 2>&1; then
    echo "the job ended well"
    failed=1
  fi
  grep -q "cairn: error: rank $rank: $function failed" "$work/output" || {
    cat "$work/output"
    failed=1
  }
  ! grep -q "rank 0 came to its end" "$work/output" || failed=1
done <<CASES
all_reduce MPI_Ireduce 1 3
all_reduce MPI_Iallreduce 0 2
all_reduce MPI_Ibcast 1 0
all_reduce MPI_Ibcast 0 1
all_reduce MPI_Test 0 2
broadcast MPI_Bcast 0 3
broadcast MPI_Bcast 1 2
broadcast MPI_Bcast 3 1
barrier MPI_Barrier 1 0
barrier MPI_Barrier 0 3
CASES
exit $failed
