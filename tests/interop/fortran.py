"""Opens what a Fortran program saved: a(i, j) is found at [j - 1, i - 1], by TensorFlow, h5py and C++.

usage: fortran.py WORK_DIRECTORY TOOL PROGRAM
PROGRAM (tests/fortran/one_rank.f90) is run with WORK_DIRECTORY/run, made afresh. TOOL is cairn.
"""
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import tensorflow as tf

NX, NY = 3, 2
A = np.array([[100 * i + 10 * j for i in range(1, NX + 1)] for j in range(1, NY + 1)])  # [j, i]
EVEN = A // 10 % 2 == 0
EXPECTED = {
    "i1": (A // 10).astype(np.int8), "i2": A.astype(np.int16), "i4": A.astype(np.int32),
    "i8": A.astype(np.int64) + 2 ** 40, "r4": A.astype(np.float32) + np.float32(0.5),
    "r8": A + 0.25, "halo": A + 0.25, "scalar": np.float64(2.5), "step": np.int64(3),
    "c4": (A - 1j * A).astype(np.complex64), "c8": (A + 0.125j).astype(np.complex128),
    "l1": EVEN, "l2": EVEN, "l4": EVEN, "l8": EVEN,
    "all7": np.arange(1.0, 25).reshape(3, 2, 1, 2, 1, 2, 1), "empty": np.zeros((NY, 0)),
    "particles": np.arange(1.0, 13).reshape(4, 3), "numbers": np.array([4, 3, 2, 1], np.int32),
    "by_id": np.array([[11.0, 12], [21, 22], [31, 32]]),
}
WORDS = [["x" * (i + NX * j) for i in range(1, NX + 1)] for j in range(NY)]


def compare(what, key, found, right):
    found = np.asarray(found)
    if (found.dtype, found.shape) != (right.dtype, right.shape) or found.tobytes() != right.tobytes():
        sys.exit(f"FAILED: {what}: {key} is {found.dtype} {found.shape}\n{found}\nand not\n{right}")


def main(work, tool, program):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    run = os.path.join(work, "run")
    subprocess.run([program, run], check=True)
    reader = tf.train.load_checkpoint(os.path.join(run, "ckpt-3"))
    for key, right in EXPECTED.items():
        compare("TensorFlow", key, reader.get_tensor(key), np.asarray(right))
    words = reader.get_tensor("words").tolist()
    if words != [[word.encode() for word in row] for row in WORDS]:
        sys.exit(f"FAILED: TensorFlow: words are {words}")
    files = {}
    if os.path.isdir(run + "-hdf5"):
        files["h5py, saved by Fortran"] = os.path.join(run + "-hdf5", "ckpt-3.h5")
        files["h5py, converted"] = os.path.join(work, "converted.h5")
        subprocess.run([tool, "convert", os.path.join(run, "ckpt-3"), files["h5py, converted"]],
                       check=True, stdout=subprocess.DEVNULL)
    for what, path in files.items():
        with h5py.File(path) as file:
            for key, right in EXPECTED.items():
                compare(what, key, file[key][()], np.asarray(right))
            if file["words"].asstr()[()].tolist() != WORDS:
                sys.exit(f"FAILED: {what}: words are {file['words'][()]}")
    print(f"{len(EXPECTED) + 1} arrays of Fortran, by TensorFlow and {len(files)} times by h5py")


main(*sys.argv[1:])
