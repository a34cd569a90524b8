"""Gray-Scott saves as HDF5; what h5py makes of it is where another run begins.

usage: gray_scott_hdf5.py WORK_DIRECTORY CAIRN PROGRAM LAUNCHER...
A rank count follows the launcher's last argument.
"""
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np


def main():
    work, cairn, program, launcher = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)

    def run(ranks, *arguments):
        done = subprocess.run(launcher + [str(ranks), program, "--size", "70", "--digest", *arguments],
                              check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    def digest(lines):
        return lines[-1].split()[1]

    whole = digest(run(1, "--steps", "60"))
    saving = ["--format", "hdf5", "--checkpoint-dir", os.path.join(work, "run"),
              "--checkpoint-every", "20"]
    run(4, "--steps", "40", *saving)
    lines = run(3, "--steps", "60", *saving)
    assert lines[0].startswith("restored step 40"), lines
    assert digest(lines) == whole, lines
    subprocess.run([cairn, "verify", os.path.join(work, "run")], check=True)

    start = os.path.join(work, "start.h5")
    with h5py.File(os.path.join(work, "run", "ckpt-20.h5"), "r") as saved, \
            h5py.File(start, "w") as made:
        assert saved["step"][()] == 20 and saved["u"].shape == (70, 70)
        made.create_dataset("some/where/u", data=saved["u"], chunks=(16, 9), compression="gzip",
                            shuffle=True)
        made.create_dataset("some/where/v", data=np.asarray(saved["v"], ">f8"))
    for ranks in (1, 3):
        lines = run(ranks, "--steps", "40", "--initial", start + ":/some/where")
        assert lines[0].startswith("began with the fields of"), lines
        assert digest(lines) == whole, lines
    print("h5py", h5py.__version__, "and Gray-Scott agree on", whole)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
