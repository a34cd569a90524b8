#!/bin/sh
# Runs a test script with a Python that has TensorFlow; without one, exit status 77 means skipped.
# usage: interop-python.sh PYTHON SCRIPT [ARGUMENT...]
python=$1
shift
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[ -z "$CAIRN_SKIP_INTEROP" ] || skip "CAIRN_SKIP_INTEROP is set"
[ -x "$python" ] || skip "$python does not exist (scripts/test makes it where PyPI can be reached)"
"$python" -c 'import importlib.util as u, sys
sys.exit(not all(map(u.find_spec, ("tensorflow", "h5py", "numpy"))))' ||
  skip "$python has no tensorflow, h5py and numpy"
export TF_CPP_MIN_LOG_LEVEL=2 CUDA_VISIBLE_DEVICES= PYTHONDONTWRITEBYTECODE=1
exec "$python" "$@"
