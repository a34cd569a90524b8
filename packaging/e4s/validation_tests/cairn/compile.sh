#!/bin/bash -e
. ./setup.sh
set -x
mkdir -p build
cd build
cmake .. -DCMAKE_CXX_COMPILER="$TEST_CXX" -DCairn_ROOT="$CAIRN_ROOT"
cmake --build .
