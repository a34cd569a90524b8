#!/bin/bash -e
# Two ranks save, three restore and go on, and the tool finds the checkpoints whole.
. ./setup.sh
set -x
cairn --version
cairn selftest
rm -rf run
$TEST_RUN_CMD $TEST_RUN_PROCFLAG 2 ./build/restart 0 20
$TEST_RUN_CMD $TEST_RUN_PROCFLAG 3 ./build/restart 20 40
cairn verify run
