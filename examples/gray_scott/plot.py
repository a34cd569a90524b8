# %% [markdown]
# A field of a Gray-Scott checkpoint, without Cairn: an HDF5 checkpoint is an ordinary HDF5 file.
#
#     mpirun -np 4 gray_scott --format hdf5 --checkpoint-dir run
#     python3 plot.py run field.png
#
# Needs h5py, numpy and matplotlib. The cells (`# %%`) run one by one in Jupyter or VS Code as well.

# %% Which file: the one that is given, or the highest step in a directory
import sys
from pathlib import Path

import h5py
import matplotlib

if __name__ == "__main__" and "ipykernel" not in sys.modules:
    matplotlib.use("Agg")  # no window
import matplotlib.pyplot as plt

source = Path(sys.argv[1] if len(sys.argv) > 1 else "run")
picture = Path(sys.argv[2] if len(sys.argv) > 2 else "field.png")
if source.is_dir():
    source = max(source.glob("*.h5"), key=lambda path: int(path.stem.rsplit("-", 1)[1]))

# %% What is in it: each tensor is a dataset of its whole shape; /_cairn is Cairn's own
with h5py.File(source, "r") as file:
    file.visititems(lambda name, item: print(name, getattr(item, "shape", ""))
                    if not name.startswith("_cairn") else None)
    step = file["step"][()]
    v = file["v"][...]

# %% The picture
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
image = axes.imshow(v, cmap="magma", origin="upper")
axes.set_title(f"v at step {step}")
figure.colorbar(image, ax=axes)
figure.savefig(picture, dpi=120)
print(f"{picture}: v at step {step}, {v.shape[0]} x {v.shape[1]}, {v.min():.3f} .. {v.max():.3f}")
