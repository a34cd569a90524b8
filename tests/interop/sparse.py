"""Checkpoints of examples/sparse, as h5py and TensorFlow see them: an ordinary dataset that knows its
fill value, and slices of a tensor that has no whole.

usage: sparse.py WORK_DIRECTORY COMMAND...
COMMAND is run with a directory, a width, and perhaps --hdf5 behind it.
"""
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import tensorflow as tf

SHAPE, WIDTH = (24, 16), 2


def main():
    work, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
    shutil.rmtree(work, ignore_errors=True)
    wanted = np.ones(SHAPE)
    wanted[WIDTH:-WIDTH, WIDTH:-WIDTH] = 0
    bundle, file = os.path.join(work, "bundle"), os.path.join(work, "file")
    subprocess.run(command + [bundle, str(WIDTH)], check=True)
    subprocess.run(command + [file, str(WIDTH), "--hdf5"], check=True)

    with h5py.File(os.path.join(file, "ckpt-1.h5"), "r") as opened:
        psi = opened["psi"]
        assert psi.dtype == np.float64 and psi.fillvalue == 0 and np.array_equal(psi[()], wanted)
        plist = psi.id.get_create_plist()
        assert plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
        step = opened["step"].id.get_create_plist()
        assert step.fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED

    prefix = os.path.join(bundle, "ckpt-1")
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_shape_map()["psi"] == list(SHAPE)
    assert reader.get_tensor("step") == 1
    try:
        reader.get_tensor("psi")
    except (tf.errors.OpError, ValueError) as error:
        print("of all of it TensorFlow says:", str(error).split("\n")[0][:160])
    else:
        raise AssertionError("TensorFlow reads what nobody held")
    # The first rows, and a column of the layer that crosses the slices of ranks.
    for spec, box in (("24 16 0,2:0,16", np.s_[0:2, :]), ("24 16 2,20:0,1", np.s_[2:22, 0:1])):
        part, = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["psi"], shape_and_slices=[spec],
                                     dtypes=[tf.float64])
        assert np.array_equal(part.numpy(), wanted[box]), spec
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
