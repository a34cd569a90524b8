"""What TensorFlow wrote in parts is merged by cairn, and what ranks wrote in TensorFlow's words is read
by TensorFlow. usage: merge.py WORK_DIRECTORY CAIRN_TOOL COMMAND...

COMMAND runs examples/tensorflow_words with a directory as its last argument.
"""
import os
import shutil
import subprocess
import sys

import numpy as np
import tensorflow as tf


def require(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def save_parts(directory):
    """Rows 0..1 of u and v in one part, rows 2..4 of u, half and strings in another."""
    u = np.arange(20, dtype=np.float32).reshape(5, 4)
    v = np.arange(3, dtype=np.int64) - 1
    half = np.arange(6, dtype=np.float16)
    words = np.array([b"one", b"", b"\xff"], dtype=object)
    parts = [os.path.join(directory, "parts", name) for name in ("a", "b")]
    tf.raw_ops.SaveV2(prefix=parts[0], tensor_names=["u", "v"],
                      shape_and_slices=["5 4 0,2:0,4", ""], tensors=[u[:2], v])
    tf.raw_ops.SaveV2(prefix=parts[1], tensor_names=["u", "half", "words"],
                      shape_and_slices=["5 4 2,3:0,4", "", ""], tensors=[u[2:], half, words])
    return parts, {"u": u, "v": v, "half": half, "words": words}


def main():
    work, tool, command = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)

    parts, expected = save_parts(work)
    merged = os.path.join(work, "merged")
    subprocess.run([tool, "merge", merged, *parts], check=True)
    subprocess.run([tool, "verify", merged], check=True)
    reader = tf.train.load_checkpoint(merged)
    for key, value in expected.items():
        require(np.array_equal(reader.get_tensor(key), value), f"{key} of {merged}")
    require(subprocess.run([tool, "merge", os.path.join(work, "twice"), parts[0], merged],
                           capture_output=True).returncode == 2, "a key that comes twice")

    # TensorFlow merges cairn's result again.
    extra = os.path.join(work, "parts", "c")
    tf.raw_ops.SaveV2(prefix=extra, tensor_names=["w"], shape_and_slices=[""],
                      tensors=[np.float64(2.5)])
    again = os.path.join(work, "again")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[merged, extra], destination_prefix=again,
                                  delete_old_dirs=False)
    reader = tf.train.load_checkpoint(again)
    for key, value in expected.items():
        require(np.array_equal(reader.get_tensor(key), value), f"{key} of {again}")
    require(reader.get_tensor("w") == 2.5, "w")

    run = os.path.join(work, "run")
    subprocess.run(command + [run], check=True)
    latest = tf.train.latest_checkpoint(run)
    require(latest == os.path.join(run, "ckpt-2"), f"the latest is {latest}")
    reader = tf.train.load_checkpoint(latest)
    w = reader.get_tensor("model/w")
    require(w.shape == (10, 4) and w.min() == 1.5, "model/w")
    require(reader.get_tensor("epoch") == 4 and reader.get_tensor("save_counter") == 2, "scalars")
    require(list(reader.get_tensor("notes")) == [b"written by the application"], "notes")
    require(np.array_equal(tf.train.load_checkpoint(os.path.join(run, "export")).get_tensor("w"), w),
            "the export")
    shutil.rmtree(work)
    print("merged and read")


main()
