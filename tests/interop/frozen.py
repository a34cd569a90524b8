"""Checkpoints of examples/frozen, of which some share data files: TensorFlow reads each of them, also
alone.

usage: frozen.py WORK_DIRECTORY COMMAND...
COMMAND is run with a directory, and perhaps "change" behind it.
"""
import glob
import os
import shutil
import subprocess
import sys

import numpy as np
import tensorflow as tf


def main():
    work, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
    shutil.rmtree(work, ignore_errors=True)
    run = os.path.join(work, "run")
    subprocess.run(command + [run, "change"], check=True)
    subprocess.run(command + [run], check=True)
    weights = np.arange(12 * 4096, dtype=np.float32).reshape(12, 4096)
    links = [os.stat(file).st_nlink for file in glob.glob(os.path.join(run, "*.data-*"))]
    assert max(links) == 4, links

    def check(directory, step):
        reader = tf.train.load_checkpoint(os.path.join(directory, f"ckpt-{step}"))
        wanted = weights.copy()
        wanted[0, 0] = float(step > 1)
        assert reader.get_tensor("step") == step
        assert np.array_equal(reader.get_tensor("model/weights"), wanted), step
        assert np.all(reader.get_tensor("adapter/weights") == step), step

    for step in range(1, 5):
        check(run, step)
    # Each checkpoint is read when all others are gone, and from a copy.
    for step in range(1, 4):
        alone = os.path.join(work, f"alone-{step}")
        os.mkdir(alone)
        for file in glob.glob(os.path.join(run, f"ckpt-{step}.*")):
            shutil.move(file, alone)
    check(run, 4)
    shutil.copytree(os.path.join(work, "alone-2"), os.path.join(work, "copy"))
    shutil.rmtree(os.path.join(work, "alone-2"))
    for directory, step in (("alone-1", 1), ("copy", 2), ("alone-3", 3)):
        check(os.path.join(work, directory), step)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
