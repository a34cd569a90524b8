"""Runs Gray-Scott with HDF5 checkpoints and the script that plots one.

usage: plot_test.py SCRATCH PLOT GRAY_SCOTT LAUNCHER...
"""
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import matplotlib.image
import numpy

scratch, plot, program, launcher = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
shutil.rmtree(scratch, ignore_errors=True)
scratch.mkdir(parents=True)
subprocess.run([*launcher, program, "--size", "48", "--steps", "40", "--checkpoint-every", "20",
                "--checkpoint-dir", str(scratch / "run"), "--format", "hdf5", "--restart", "none"],
               check=True)
ran = subprocess.run([sys.executable, plot, str(scratch / "run"), str(scratch / "field.png")],
                     check=True, capture_output=True, text=True)
print(ran.stdout)
with h5py.File(scratch / "run" / "ckpt-40.h5") as file:
    v = file["v"][...]
assert f"v at step 40, 48 x 48, {v.min():.3f} .. {v.max():.3f}" in ran.stdout, ran.stdout
image = matplotlib.image.imread(scratch / "field.png")
assert image.shape[:2] == (600, 720), image.shape
colours = numpy.unique(image.reshape(-1, image.shape[2]), axis=0)
assert len(colours) > 50, "the picture shows nothing"
