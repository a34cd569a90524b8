#!/bin/sh
# Runs a test script with a Python that has torch; without one, exit status 77 means skipped.
# usage: torch-python.sh PYTHON SCRIPT [ARGUMENT...]
if [ ! -x "$1" ]; then
  echo "SKIPPED: $1 does not exist (scripts/torch-tests or scripts/framework-tests makes it where PyPI can be reached)"
  exit 77
fi
export CUDA_VISIBLE_DEVICES= PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
exec "$@"
