"""Opens with TensorFlow what save_max_shards saved: everything, cut or not, reads back.

usage: open_max_shards.py WORK_DIRECTORY COMMAND...
COMMAND is run with WORK_DIRECTORY (made afresh) as its last argument.
"""
import glob
import json
import os
import shutil
import subprocess
import sys

import tensorflow as tf

from check_with_tensorflow import Check, digest


def data_files(prefix):
    return sorted(glob.glob(glob.escape(prefix) + ".data-*"))


def check_sizes(prefix, expected, limit):
    """Each file above the limit has one tensor that is not cut; other tensors are cut into many
    pieces."""
    oversize = [t["key"] for t in expected["tensors"]
                if not t["may_be_cut"] and t["key"].startswith(("matrix/", "dense/", "strings/long"))
                and size_of(t) > limit]
    # The last file holds the metadata and a copy of the index.
    large = [f for f in data_files(prefix)[:-1] if os.path.getsize(f) > limit]
    if len(large) != len(oversize) or not oversize:
        sys.exit(f"FAILED: {len(large)} files are larger than {limit}; tensors that are: {oversize}")
    cut = {t["key"] for t in expected["tensors"] if "slices" in t}
    for tensor in expected["tensors"]:
        if tensor["may_be_cut"] and size_of(tensor) > limit and tensor["key"] not in cut:
            sys.exit(f"FAILED: {tensor['key']} was not cut")
        if not tensor["may_be_cut"] and tensor["key"] in cut:
            sys.exit(f"FAILED: {tensor['key']} was cut")
    return len(large), len(cut)


def size_of(tensor):
    if tensor["dtype"] == "string":
        return 3000 if tensor["key"] == "strings/long" else 0
    count = 1
    for extent in tensor["shape"]:
        count *= extent
    return count * tf.as_dtype(tensor["dtype_number"]).size


def check_variables(prefix, expected):
    """tf.train.Checkpoint restores variables by name, including the dtypes that it assembles
    wrongly."""
    chosen = [t for t in expected["tensors"]
              if t["key"] in ("matrix/float32", "matrix/float16", "matrix/uint64", "deep",
                              "long row", "rows/float64", "matrix/bfloat16", "dense/float16",
                              "dense/uint64")]
    variables = {t["key"].replace("/", "_").replace(" ", "_"):
                 tf.Variable(tf.zeros(t["shape"], tf.as_dtype(t["dtype_number"])), name=t["key"])
                 for t in chosen}
    tf.train.Checkpoint(**variables).restore(prefix)
    for tensor, variable in zip(chosen, variables.values()):
        if digest(variable.numpy()) != tensor["sha256"]:
            sys.exit(f"FAILED: the variable {tensor['key']} was not restored")
    return len(chosen)


def main():
    work, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    subprocess.run(command + [work], check=True)
    with open(os.path.join(work, "EXPECTED.json"), encoding="utf-8") as file:
        everything = json.load(file)
    expected = everything["checkpoints"][0]
    prefix = os.path.join(work, "run", expected["prefix"])
    check = Check(prefix, expected)
    check.run()
    if check.failures:
        sys.exit("FAILED: " + "\n".join(check.failures))
    large, cut = check_sizes(prefix, expected, everything["limit"])
    variables = check_variables(prefix, expected)
    print(f"TensorFlow {tf.__version__}: {check.reads} comparisons, {cut} tensors cut, "
          f"{large} whole in files of their own, {variables} variables")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
