"""Opens what save_samples saved with TensorFlow, through every door that TensorFlow has.

usage: open_samples.py WORK_DIRECTORY COMMAND...
COMMAND is run with WORK_DIRECTORY (made afresh) as its last argument.
"""
import collections
import glob
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys

import numpy as np
import tensorflow as tf

OWN = "_cairn/"  # metadata and padding: TensorFlow lists and ignores them


def digest(value):
    value = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
    if value.dtype == object:
        strings = [bytes(s) for s in value.ravel()]
        raw = b"".join(struct.pack("<Q", len(s)) + s for s in strings)
    else:
        raw = value.tobytes()
    return hashlib.sha256(raw).hexdigest()


def restore(prefix, tensor, spec=""):
    return tf.raw_ops.RestoreV2(
        prefix=prefix,
        tensor_names=[tensor["key"]],
        shape_and_slices=[spec],
        dtypes=[tf.as_dtype(tensor["dtype_number"])],
    )[0].numpy()


def random_box(shape, rng):
    box = []
    for extent in shape:
        start = rng.randrange(extent)
        box.append((start, 1 + rng.randrange(extent - start)))
    return box


def spec_of(shape, box):
    return " ".join(map(str, shape)) + " " + ":".join(f"{s},{n}" for s, n in box)


def assembles(tensor, checkpoint):
    """Whether TensorFlow can slice and join this dtype, which the writer's samples tell."""
    return f"grid/{tensor['dtype']}" in {t["key"] for t in checkpoint["tensors"]}


def refused(call):
    try:
        call()
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        return "not supported" in str(error)
    return False


class Counts(collections.Counter):
    def check(self, what, good, *details):
        self[what] += 1
        if not good:
            sys.exit(f"FAILED: {what}: {' '.join(map(str, details))}")


def check_listing(counts, prefix, checkpoint):
    reader = tf.train.load_checkpoint(prefix)
    shapes = {k: s for k, s in tf.train.list_variables(prefix) if not k.startswith(OWN)}
    dtypes = reader.get_variable_to_dtype_map()
    expected = {t["key"]: t for t in checkpoint["tensors"]}
    counts.check("keys", shapes.keys() == expected.keys(), set(shapes) ^ set(expected))
    for key, tensor in expected.items():
        counts.check("shape", list(shapes[key]) == tensor["shape"], key, shapes[key])
        counts.check("dtype", dtypes[key] == tf.as_dtype(tensor["dtype_number"]), key, dtypes[key])
        counts.check("dtype name", dtypes[key].name in (tensor["dtype"], "half"), key, dtypes[key])
    counts.check("own metadata", OWN + "meta" in dtypes, dtypes.keys())
    return reader


def check_values(counts, prefix, checkpoint, rng):
    reader = check_listing(counts, prefix, checkpoint)
    for tensor in checkpoint["tensors"]:
        key, shape = tensor["key"], tensor["shape"]
        for part in tensor.get("slices", []):
            found = digest(restore(prefix, tensor, part["spec"]))
            counts.check("stored slice", found == part["sha256"], key, part["spec"])
        if tensor.get("exact_match_only"):
            counts.check("whole is refused", refused(lambda: reader.get_tensor(key)), key)
            continue
        whole = reader.get_tensor(key)
        counts.check("get_tensor", digest(whole) == tensor["sha256"], key)
        counts.check("RestoreV2", digest(restore(prefix, tensor)) == tensor["sha256"], key)
        if not shape or 0 in shape or not assembles(tensor, checkpoint):
            continue
        for _ in range(4):
            box = random_box(shape, rng)
            part = np.asarray(whole)[tuple(slice(s, s + n) for s, n in box)]
            found = restore(prefix, tensor, spec_of(shape, box))
            counts.check("part", digest(found) == digest(part), key, box)


def check_files(counts, prefix, checkpoint):
    """The number of files in the header is that of the files that exist."""
    files = sorted(os.path.basename(f) for f in glob.glob(glob.escape(prefix) + ".data-*"))
    name = os.path.basename(prefix)
    right = [f"{name}.data-{i:05d}-of-{len(files):05d}" for i in range(len(files))]
    counts.check("data files", files == right, files)


def check_merge(counts, prefix, checkpoint, directory):
    """TensorFlow's merge accepts our files as its own bundle."""
    os.makedirs(directory)
    for file in glob.glob(glob.escape(prefix) + ".*"):
        shutil.copy(file, directory)
    merged = os.path.join(directory, "merged")
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[os.path.join(directory, os.path.basename(prefix))],
        destination_prefix=merged,
        delete_old_dirs=False,
    )
    check_files(counts, merged, checkpoint)
    reader = tf.train.load_checkpoint(merged)
    for tensor in checkpoint["tensors"]:
        if not tensor.get("exact_match_only"):
            found = digest(reader.get_tensor(tensor["key"]))
            counts.check("merged", found == tensor["sha256"], tensor["key"])


def check_state_file(counts, run, state):
    found = tf.train.get_checkpoint_state(run)
    latest = os.path.join(run, state["latest_checkpoint"])
    counts.check("latest_checkpoint", tf.train.latest_checkpoint(run) == latest, latest)
    paths = [os.path.basename(p) for p in found.all_model_checkpoint_paths]
    counts.check("state file", paths == state["all_model_checkpoint_paths"], paths)
    times = list(found.all_model_checkpoint_timestamps)
    counts.check("timestamps", len(times) == len(paths) and times == sorted(times), times)
    counts.check("load by directory", tf.train.load_checkpoint(run).has_tensor("rows"), run)


def check_manager(counts, run, expected):
    """tf.train.CheckpointManager takes over our directory: it restores, saves and removes
    checkpoints."""
    prefix = os.path.join(run, expected["state"]["latest_checkpoint"])
    tensors = {t["key"]: t for t in expected["checkpoints"][-1]["tensors"]}
    wanted = {}
    for key in ("rows", "deep", "scalar/float64", "grid/bfloat16", "irregular/complex64"):
        tensor = tensors[key]
        zero = tf.zeros(tensor["shape"], tf.as_dtype(tensor["dtype_number"]))
        wanted[key] = tf.Variable(zero, name=key)
    checkpoint = tf.train.Checkpoint(
        **{key.replace("/", "_"): variable for key, variable in wanted.items()}
    )
    manager = tf.train.CheckpointManager(checkpoint, run, max_to_keep=2, checkpoint_name="ckpt")
    counts.check("manager.latest", manager.latest_checkpoint == prefix, manager.latest_checkpoint)
    names = [os.path.basename(p) for p in manager.checkpoints]
    counts.check(
        "manager.checkpoints", names == expected["state"]["all_model_checkpoint_paths"], names
    )
    # Without an object graph TensorFlow restores by the variables' names, which are our keys.
    checkpoint.restore(manager.latest_checkpoint)
    for key, variable in wanted.items():
        counts.check("manager restores", digest(variable.numpy()) == tensors[key]["sha256"], key)

    saved = manager.save(checkpoint_number=40)
    left = {os.path.basename(f).split(".")[0] for f in glob.glob(os.path.join(run, "ckpt-*"))}
    counts.check("manager sweeps", left == {"ckpt-30", "ckpt-40"}, left)
    check_values(counts, prefix, expected["checkpoints"][-1], random.Random(2))
    counts.check("manager's own save", tf.train.latest_checkpoint(run) == saved, saved)


def main():
    work, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    subprocess.run(command + [work], check=True)
    with open(os.path.join(work, "EXPECTED.json"), encoding="utf-8") as file:
        expected = json.load(file)
    run = os.path.join(work, "run")
    counts = Counts()
    check_state_file(counts, run, expected["state"])
    rng = random.Random(1)
    for checkpoint in expected["checkpoints"]:
        prefix = os.path.join(run, checkpoint["prefix"])
        check_files(counts, prefix, checkpoint)
        check_values(counts, prefix, checkpoint, rng)
        check_merge(counts, prefix, checkpoint, os.path.join(work, "merge-" + checkpoint["prefix"]))
    check_manager(counts, run, expected)
    print("TensorFlow", tf.__version__, "on", expected["note"] + ":", dict(counts))
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
