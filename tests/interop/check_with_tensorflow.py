#!/usr/bin/env python3
"""Reads a checkpoint with TensorFlow and compares it with an expected.json of the golden form.

    check_with_tensorflow.py PREFIX EXPECTED.json

EXPECTED.json: tests/golden/README.md. The item of "checkpoints" whose prefix is PREFIX's base name
is used, or the only one. Every tensor is read whole and slice by slice through RestoreV2, whole
through CheckpointReader (load_checkpoint), and the list of keys is compared. Keys that EXPECTED
lacks are errors, but for own metadata ("_cairn/…"). Exit status 0: all as expected; 1: not, and
standard output says what; 2: wrong usage, or no TensorFlow.
"""
import hashlib
import json
import os
import struct
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

try:
    import numpy as np
    import tensorflow as tf
except ImportError as missing:
    print(f"cannot check: {missing}")
    sys.exit(2)


def digest(values):
    """SHA-256 in the golden form, of a tensor or of what get_tensor returns."""
    values = values.numpy() if hasattr(values, "numpy") else values
    if isinstance(values, bytes):
        values = np.array(values, dtype=object)
    if np.asarray(values).dtype == object:
        strings = [bytes(s) for s in np.asarray(values).ravel()]
        return hashlib.sha256(b"".join(struct.pack("<Q", len(s)) + s for s in strings)).hexdigest()
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


class Check:
    def __init__(self, prefix, expected):
        self.prefix, self.expected, self.failures, self.reads = prefix, expected, [], 0

    def same(self, what, found, wanted):
        self.reads += 1
        if found != wanted:
            self.failures.append(f"{what}: found {found}, expected {wanted}")

    def restore(self, what, key, number, spec, wanted, shape=None):
        try:
            value = tf.raw_ops.RestoreV2(
                prefix=self.prefix, tensor_names=[key], shape_and_slices=[spec],
                dtypes=[tf.as_dtype(number)])[0]
        except Exception as error:  # any exception of TensorFlow's is a failure of the check
            self.failures.append(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")
            return
        self.same(what, digest(value), wanted)
        if shape is not None:
            self.same(what + ": shape", list(value.shape), shape)

    def refused(self, what, call):
        self.reads += 1
        try:
            call()
        except Exception:
            return
        self.failures.append(f"{what}: TensorFlow read what it should refuse")

    def tensor(self, reader, tensor):
        key, number, shape = tensor["key"], tensor["dtype_number"], tensor["shape"]
        sliced = "slices" in tensor
        self.same(f"{key}: dtype", reader.get_variable_to_dtype_map()[key].as_datatype_enum, number)
        self.same(f"{key}: shape", reader.get_variable_to_shape_map()[key], shape)
        # A single slice that is the whole tensor is stored plain, and reads like that.
        alone = sliced and len(tensor["slices"]) == 1 and tensor.get("covered", True)
        if sliced and not tensor.get("covered", True):
            self.refused(f"{key}: whole, with gaps", lambda: reader.get_tensor(key))
        elif "sha256" in tensor and (alone or not tensor.get("exact_match_only")):
            self.restore(f"{key}: whole", key, number, "", tensor["sha256"], shape)
            try:
                self.same(f"{key}: get_tensor", digest(reader.get_tensor(key)), tensor["sha256"])
            except Exception as error:
                self.failures.append(f"{key}: get_tensor: {error}")
        for part in tensor["slices"] if sliced and isinstance(tensor["slices"], list) else []:
            self.restore(f"{key}: slice {part['spec']}", key, number, part["spec"], part["sha256"])

    def run(self):
        listed = {k for k, _ in tf.train.list_variables(self.prefix)}
        wanted = {t["key"] for t in self.expected["tensors"]}
        self.same("keys that are missing", sorted(wanted - listed), [])
        surplus = [k for k in listed - wanted if not k.startswith("_cairn/")]
        self.same("keys that nobody expects", sorted(surplus), [])
        reader = tf.train.load_checkpoint(self.prefix)
        for tensor in self.expected["tensors"]:
            if tensor["key"] in listed:
                self.tensor(reader, tensor)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__)
        return 2
    prefix, path = arguments
    with open(path, encoding="utf-8") as file:
        checkpoints = json.load(file)["checkpoints"]
    name = os.path.basename(prefix)
    chosen = [c for c in checkpoints if c["prefix"] == name] or checkpoints
    if len(chosen) != 1:
        print(f"{path} describes no checkpoint {name}")
        return 2
    check = Check(prefix, chosen[0])
    check.run()
    for failure in check.failures:
        print(failure)
    print(f"TensorFlow {tf.__version__}: {len(chosen[0]['tensors'])} tensors, {check.reads} comparisons, "
          f"{len(check.failures)} failures")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
