"""What `cairn show --values` and `cairn view` say, against NumPy and Matplotlib.

usage: look.py WORK_DIRECTORY CAIRN GOLDEN
Of each good checkpoint the statistics of two tensors a dtype are NumPy's. Pictures are decoded by
Matplotlib, and each cell has the colour that Matplotlib's viridis gives to its number.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import matplotlib.image
import ml_dtypes
import numpy as np

work, cairn, golden = Path(sys.argv[1]).absolute(), sys.argv[2], Path(sys.argv[3])
AS_NUMPY = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16",
            "qint32": "int32"}


def run(*words, damaged_is_fine=False):
    done = subprocess.run([cairn, *map(str, words)], stdout=subprocess.PIPE)
    assert done.returncode == 0 or damaged_is_fine and done.returncode == 1, (words, done)
    return done.stdout


def numbers(prefix, tensor):
    name = AS_NUMPY.get(tensor["dtype"], tensor["dtype"])
    kind = np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
    raw = run("cat", prefix, "--key-hex", tensor["key"].encode().hex(), "--format", "raw")
    return np.frombuffer(raw, kind).reshape(tensor["shape"])


def check_values(prefix, tensor, found):
    array = numbers(prefix, tensor)
    if array.dtype.kind == "c":
        array = np.where(np.isnan(array), np.nan, np.abs(array.astype(np.complex128)))
    wide = array if array.dtype.kind in "iu" else array.astype(np.float64)
    finite = wide[np.isfinite(wide.astype(np.float64))]
    assert found["elements"] == array.size, found
    assert found["nan"] == np.isnan(wide.astype(np.float64)).sum(), found
    assert found["infinite"] == np.isinf(wide.astype(np.float64)).sum(), found
    assert found["zero"] == (wide == 0).sum(), found
    if finite.size == 0:
        assert found["min"] is None and found["mean"] is None, found
        return
    for member, position in (("min", finite.argmin()), ("max", finite.argmax())):
        value = float(finite[position])
        last_bit = 0 if tensor["dtype"][:7] != "complex" else 1e-15 * value  # of absolute values
        assert abs(found[member]["value"] - value) <= last_bit, (found, value)
        assert wide[tuple(found[member]["index"])] == finite[position], found
    exact = finite.astype(np.longdouble)
    size = np.abs(exact).max()
    assert abs(found["mean"] - exact.mean()) <= 1e-14 * size, (found, exact.mean())
    assert abs(found["deviation"] - exact.std()) <= 1e-13 * size, (found, exact.std())


def plot_of(picture):
    """The part of the picture inside the first frame."""
    black = (picture == 0).all(axis=2)
    for top, row in enumerate(black):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(int), [0]))))
        for left, right in zip(edges[::2], edges[1::2]):
            if right - left >= 40:
                height = np.flatnonzero(~black[top:, left])[0]
                return picture[top + 1:top + height - 1, left + 1:right - 1]
    raise AssertionError("no frame")


def check_picture(prefix, key, array):
    file = work / "picture.png"
    run("view", prefix, key, "-o", file)
    picture = np.round(matplotlib.image.imread(file)[..., :3] * 255).astype(int)
    plot = plot_of(picture)
    rows, columns = array.shape
    low, high = array.min(), array.max()
    colours = matplotlib.colormaps["viridis"]((array - low) / (high - low))[..., :3] * 255
    for row in range(rows):
        for column in range(columns):
            seen = plot[int((row + 0.5) * plot.shape[0] / rows),
                        int((column + 0.5) * plot.shape[1] / columns)]
            apart = np.abs(seen - colours[row, column]).max()
            assert apart <= 4, (key, row, column, seen, colours[row, column])


np.seterr(all="ignore")


def main():
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    tensors = pictures = 0
    for folder in sorted(golden.iterdir()):
        if folder.name in ("bad", "many_keys") or not (folder / "ckpt.index").exists():
            continue
        prefix = folder / "ckpt"
        known = {one["key"]: one for one in json.loads(run("show", prefix, "--json"))["tensors"]
                 if "key" in one}
        seen = collections.Counter()
        all_values = run("show", prefix, "--values", "--json", damaged_is_fine=True)
        for found in json.loads(all_values)["tensors"]:
            if "elements" not in found or "key" not in found:
                continue
            tensor = known[found["key"]]
            seen[tensor["dtype"]] += 1
            if seen[tensor["dtype"]] > 2:
                continue
            check_values(prefix, tensor, found)
            tensors += 1
            if len(tensor["shape"]) != 2 or min(tensor["shape"]) < 2 or tensor["dtype"] != "float32":
                continue
            array = numbers(prefix, tensor).astype(np.float64)
            if pictures < 6 and max(array.shape) <= 60 and np.isfinite(array).all() and np.ptp(array):
                check_picture(prefix, found["key"], array)
                pictures += 1
    assert tensors > 20 and pictures > 2, (tensors, pictures)
    print(f"{tensors} tensors and {pictures} pictures agree")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
