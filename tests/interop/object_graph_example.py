"""Runs examples/object_graph. usage: object_graph_example.py WORK_DIRECTORY RESTORE.PY COMMAND..."""
import contextlib
import io
import os
import runpy
import shutil
import subprocess
import sys

import numpy as np
import tensorflow as tf


def keras_checkpoint():
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(2)])
    optimizer = tf.keras.optimizers.SGD(0.5, momentum=0.9)
    model.compile(optimizer, "mse")
    model.fit(np.ones((4, 3), np.float32), np.ones((4, 2), np.float32), verbose=0)
    return model, tf.train.Checkpoint(model=model, optimizer=optimizer)


def main():
    work, restore, command = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    saved, keras, halved = (os.path.join(work, name) for name in ("saved", "keras", "halved"))
    subprocess.run(command + ["save", saved], check=True)
    sys.argv = [restore, saved]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        runpy.run_path(restore, run_name="__main__")
    if said.getvalue() != "step 100 kernel 6.0\n":
        sys.exit(f"FAILED: restore.py says {said.getvalue()!r}")

    model, checkpoint = keras_checkpoint()
    checkpoint.save(os.path.join(keras, "ckpt"))
    subprocess.run(command + ["halve", keras, halved], check=True)
    other, checkpoint = keras_checkpoint()
    checkpoint.restore(tf.train.latest_checkpoint(halved)).assert_consumed()
    for before, after in zip(model.get_weights(), other.get_weights(), strict=True):
        if not np.array_equal(before / 2, after):
            sys.exit(f"FAILED: {before} became {after}")
    shutil.rmtree(work)
    print("as documented")


if __name__ == "__main__":
    main()
