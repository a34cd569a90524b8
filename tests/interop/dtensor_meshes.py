"""A real DTensor restores what a Layout of ours cut, on the same mesh; and back.

usage: dtensor_meshes.py WORK_DIRECTORY MESH_SAMPLES
The devices of the meshes are virtual CPUs.
"""
import collections
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

DEVICES = 8


def layout_of(mesh, tensor):
    return dtensor.Layout(tensor["sharding"], mesh)


def on_mesh(mesh, tensor, values):
    """A DVariable with these values, in this tensor's layout."""
    whole = dtensor.copy_to_mesh(values, dtensor.Layout.replicated(mesh, rank=len(values.shape)))
    return dtensor.DVariable(dtensor.relayout(whole, layout_of(mesh, tensor)))


def expected_values(tensor):
    raw = np.frombuffer(bytes.fromhex(tensor["hex"]), np.uint8)
    return raw.view(tf.as_dtype(tensor["dtype"]).as_numpy_dtype).reshape(tensor["shape"])


def local_parts(tensor, values):
    """What each device must hold of these values by the layout."""
    for position in np.ndindex(*(size for _, size in tensor["mesh"])):
        at = dict(zip((name for name, _ in tensor["mesh"]), position))
        sizes = dict(tensor["mesh"])
        cut = []
        for extent, name in zip(tensor["shape"], tensor["sharding"]):
            part = extent // sizes.get(name, 1)
            cut.append(slice(at.get(name, 0) * part, (at.get(name, 0) + 1) * part))
        yield values[tuple(cut)]


def check(what, tensor, found):
    right = list(local_parts(tensor, expected_values(tensor)))
    parts = [part.numpy() for part in dtensor.unpack(found)]
    if len(parts) != len(right):
        sys.exit(f"FAILED: {what}: {tensor['key']} has {len(parts)} parts")
    for device, (part, wanted) in enumerate(zip(parts, right)):
        if part.tobytes() != np.ascontiguousarray(wanted).tobytes():
            sys.exit(f"FAILED: {what}: {tensor['key']} on device {device}: {part} is not {wanted}")


def main():
    work, program = os.path.abspath(sys.argv[1]), sys.argv[2]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    subprocess.run([program, "save", work], check=True)
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * DEVICES
    )
    with open(os.path.join(work, "EXPECTED.json"), encoding="utf-8") as file:
        expected = json.load(file)
    counts = collections.Counter()
    for one in expected:
        dimensions = [tuple(dimension) for dimension in one["dimensions"]]
        size = int(np.prod([size for _, size in dimensions]))
        mesh = dtensor.create_mesh(dimensions, devices=[f"CPU:{i}" for i in range(size)])
        for tensor in one["tensors"]:
            tensor["mesh"] = dimensions
        zeros = {
            t["key"]: on_mesh(mesh, t, tf.zeros(t["shape"], tf.as_dtype(t["dtype"])))
            for t in one["tensors"]
        }
        prefix = os.path.join(work, one["name"], "ours")
        restored = dtensor.name_based_restore(mesh, prefix, zeros)
        for tensor in one["tensors"]:
            check("restored from ours", tensor, restored[tensor["key"]])
            counts[tensor["dtype"]] += 1
        # The same through tf.train.Checkpoint, by objects: DTYPE/LAYOUT is a variable in a dict.
        tree = collections.defaultdict(dict)
        for tensor in one["tensors"]:
            dtype, name = tensor["key"].split("/")
            tree[dtype][name] = on_mesh(mesh, tensor, tf.zeros(tensor["shape"], dtype))
        status = tf.train.Checkpoint(**tree).restore(os.path.join(work, one["name"], "objects-1"))
        status.assert_consumed()
        for tensor in one["tensors"]:
            dtype, name = tensor["key"].split("/")
            check("restored by objects", tensor, tree[dtype][name].read_value())
            counts["by objects"] += 1
        # A slice that was given in TensorFlow's notation is found by it.
        rows = 2 * size
        right = np.frombuffer(bytes.fromhex(one["spelled"]), np.float16).reshape(rows, 3)
        for row in range(0, rows, 2):
            found = tf.raw_ops.RestoreV2(
                prefix=prefix,
                tensor_names=["spelled"],
                shape_and_slices=[f"{rows} 3 {row},2:-"],
                dtypes=[tf.float16],
            )[0].numpy()
            if found.tobytes() != right[row : row + 2].tobytes():
                sys.exit(f"FAILED: spelled slice {row} of {one['name']}: {found}")
            counts["spelled"] += 1
        # DTensor saves tensors under the same layouts on its own side.
        theirs = {
            t["key"]: on_mesh(mesh, t, tf.constant(expected_values(t))) for t in one["tensors"]
        }
        keys = list(theirs)
        dtensor.sharded_save(
            mesh,
            os.path.join(work, one["name"], "theirs"),
            keys,
            [""] * len(keys),
            [theirs[key] for key in keys],
        )
        counts["meshes"] += 1
    subprocess.run([program, "restore", work], check=True)
    print("DTensor restored", dict(counts))
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
