"""Reads with h5py what cairn convert has stored with each codec.

usage: codecs.py WORK_DIRECTORY TOOL
"""
import json
import os
import shutil
import struct
import subprocess
import sys

import h5py
import hdf5plugin  # noqa: F401, as it registers filters
import ml_dtypes
import numpy as np

FILTERS = {"deflate": {"shuffle", "1"}, "zstd": {"shuffle", "32015"}, "blosc": {"32001"}}
NAMES = {"float64": "F64", "bfloat16": "BF16", "int32": "I32", "uint8": "U8"}


def tensors():
    """Arrays by key: smooth, noisy, of one chunk and of several, with chunks at edges."""
    random = np.random.default_rng(7)
    rows = np.arange(1013)[:, None] + np.arange(257)[None, :]
    return {
        "smooth": np.floor(np.sin(rows / 90) * 1000),
        "weights": (random.standard_normal((3, 517, 601)) / 50).astype(ml_dtypes.bfloat16),
        "counts": (rows // 100).astype("<i4"),
        "noise": random.integers(0, 256, 3_000_001, dtype="u1"),
        "deep/one": np.arange(4096.0),
        "deep/few": np.arange(7.0)}


def write_safetensors(path, arrays):
    header, data = {}, b""
    for key, array in arrays.items():
        raw = array.tobytes()
        header[key] = {"dtype": NAMES[array.dtype.name], "shape": array.shape,
                       "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def check(what, good):
    if not good:
        sys.exit(f"FAILED: {what}")


def check_codec(path, arrays, codec):
    with h5py.File(path) as file:
        for key, array in arrays.items():
            dataset = file[key]
            found = dataset[()]
            check(f"{codec}, {key}: values", found.shape == array.shape
                  and np.array_equal(found, array.astype(found.dtype)))
            in_chunks = array.nbytes >= 16 << 10
            check(f"{codec}, {key}: chunks", (dataset.chunks is not None) == in_chunks)
            if not in_chunks:
                continue
            filters = set(dataset._filters)  # as h5py shows those that it does not know
            named = {"1" if one == "gzip" else one for one in filters}
            check(f"{codec}, {key}: filters {named}", named == FILTERS[codec])
            stored = dataset.id.get_storage_size()
            most = array.nbytes * (1.001 if key == "noise" else 0.9)
            check(f"{codec}, {key}: {stored} bytes", stored <= most)


def main(work, tool):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    arrays = tensors()
    source = os.path.join(work, "all.safetensors")
    write_safetensors(source, arrays)
    for codec in FILTERS:
        made = os.path.join(work, codec + "-0")
        ran = subprocess.run([tool, "convert", source, made + ".h5", "--codec", codec],
                             capture_output=True, text=True)
        if "was built without" in ran.stderr:
            print(f"{codec}: not in this build")
            continue
        check(f"{codec}: {ran.stderr}", ran.returncode == 0)
        check_codec(made + ".h5", arrays, codec)
        subprocess.run([tool, "verify", made], check=True, stdout=subprocess.DEVNULL)
        ran = subprocess.run([tool, "diff", made, os.path.join(work, "deflate-0")])
        check(f"{codec} differs from deflate", ran.returncode == 0)
        print(f"{codec}: h5py reads {len(arrays)} tensors")


main(*sys.argv[1:])
