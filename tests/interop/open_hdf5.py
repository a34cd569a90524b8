"""Opens what save_samples saved as HDF5 with h5py and h5dump.

usage: open_hdf5.py [--dump-values] WORK_DIRECTORY TOOL COMMAND...
COMMAND is run with WORK_DIRECTORY (made afresh) as its last argument.
"""
import collections
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

import h5py
import ml_dtypes
import numpy as np

NARROW = {"int4": (4, True), "uint4": (4, False), "int2": (2, True), "uint2": (2, False)}
BYTES = {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz",
         "float4_e2m1fn"}
QUANTISED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16",
             "qint32": "int32"}


class Counts(collections.Counter):
    def check(self, what, good, *details):
        self[what] += 1
        if not good:
            sys.exit(f"FAILED: {what}: {' '.join(map(str, details))}")


def datasets(file):
    """All datasets of a checkpoint by key, but for Cairn's own."""
    found = {}
    file.visititems(lambda key, item: found.update({key: item})
                    if isinstance(item, h5py.Dataset) else None)
    return {key: item for key, item in found.items() if not key.startswith("_cairn/")}


def read(dataset):
    """The values of a dataset, in the types of ml_dtypes where numpy has none of its own."""
    values = dataset[()]
    if "dtype" in dataset.attrs:
        return values.view(getattr(ml_dtypes, dataset.attrs["dtype"].decode()))
    return values


def meta(file):
    """What Cairn says of the save: step, ranks, time."""
    return json.loads(file["_cairn/meta"][()])


def holders(file):
    """By key: (start, extent, device task) of each slice of a tensor when it was saved."""
    told = json.loads(file["_cairn/slices"][()])
    return {one["key"]: [(start, extent, told["tasks"][task])
                         for start, extent, task in one["slices"]]
            for one in told["tensors"] if "key" in one}


def raw_bytes(path, dataset):
    """Where an HDF5 dataset lies, and what the bytes there are."""
    if dataset.size == 0:
        return b""
    with open(path, "rb") as file:
        file.seek(dataset.id.get_offset())
        return file.read(dataset.size * dataset.id.get_type().get_size())


def same_numbers(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    nans = np.isnan(found) & np.isnan(wanted)
    return found.shape == wanted.shape and bool(np.all(nans | (found == wanted)))


def same_values(name, found, raw, shape):
    """Whether h5py gives what the bits mean."""
    bits = np.frombuffer(raw, np.uint8)
    if name == "bfloat16":
        return found.dtype == np.float32 and same_numbers(
            found, (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").reshape(shape))
    if name == "float8_e5m2":
        return found.dtype == np.float16 and same_numbers(
            found, (bits.astype("<u2") << 8).view("<f2").reshape(shape))
    if name in BYTES:
        return found.dtype.name == name and np.asarray(found).tobytes() == raw
    if name in NARROW:
        width, signed = NARROW[name]
        value = bits.astype(np.int16) & ((1 << width) - 1)
        if signed:
            value = np.where(value >= 1 << (width - 1), value - (1 << width), value)
        return found.dtype.name == ("int8" if signed else "uint8") and bool(
            np.all(np.asarray(found) == value.reshape(shape)))
    numpy_name = QUANTISED.get(name, name)
    return found.dtype.name == numpy_name and np.asarray(found).tobytes() == raw


def strings_digest(dataset):
    values = np.asarray(dataset[()], dtype=object).ravel()
    values = [v if isinstance(v, bytes) else np.asarray(v, np.uint8).tobytes() for v in values]
    return hashlib.sha256(b"".join(struct.pack("<Q", len(v)) + v for v in values)).hexdigest()


def check_file(counts, path, checkpoint):
    with h5py.File(path, "r") as file:
        found = datasets(file)
        expected = {tensor["key"]: tensor for tensor in checkpoint["tensors"]}
        counts.check("keys", found.keys() == expected.keys(), set(found) ^ set(expected))
        counts.check("own metadata", meta(file)["step"] == int(path[path.rindex("-") + 1:-3]))
        for key, tensor in expected.items():
            dataset, shape = found[key], tuple(tensor["shape"])
            counts.check("shape", dataset.shape == shape, key, dataset.shape)
            counts.check("layout", dataset.chunks is None and not dataset.compression, key)
            if tensor["dtype"] == "string":
                counts.check("strings", strings_digest(dataset) == tensor["sha256"], key)
                continue
            raw = raw_bytes(path, dataset)
            counts.check("bytes", hashlib.sha256(raw).hexdigest() == tensor["sha256"], key)
            values = read(dataset)
            counts.check("values", same_values(tensor["dtype"], values, raw, shape), key, values)
        held = holders(file)
        counts.check("holders", held.keys() == expected.keys(), set(held) ^ set(expected))
        for key, slices in held.items():
            covered = np.zeros(tuple(expected[key]["shape"]), int)
            for start, extent, task in slices:
                covered[tuple(slice(s, s + n) for s, n in zip(start, extent))] += 1
                counts.check("device tasks", task.startswith("/job:worker/replica:0/task:"), task)
            counts.check("slices", bool(np.all(covered == 1)), key)
        title = file["strings/title"].asstr()[()]
        counts.check("text", title.startswith("version "), title)


def check_h5dump(counts, path, work, checkpoint, everything):
    listed = subprocess.run(["h5dump", "-n", path], check=True, capture_output=True, text=True)
    names = {line.split()[-1] for line in listed.stdout.splitlines() if " dataset " in line}
    for tensor in checkpoint["tensors"]:
        if " " not in tensor["key"]:
            counts.check("h5dump lists", "/" + tensor["key"] in names, tensor["key"])
    # All values as text are 70 MB: once; of others what there is.
    subprocess.run(["h5dump", *([] if everything else ["-H"]), path], check=True,
                   stdout=subprocess.DEVNULL)
    out = os.path.join(work, "rows.bin")
    subprocess.run(["h5dump", "-d", "/rows", "-b", "LE", "-o", out, path], check=True,
                   stdout=subprocess.DEVNULL)
    rows = next(t for t in checkpoint["tensors"] if t["key"] == "rows")
    with open(out, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    counts.check("h5dump's bytes", found == rows["sha256"])


def check_changed(counts, path, cairn, work):
    """A file that h5py opened to change it is not taken for what was saved."""
    copy = os.path.join(work, "copy-1.h5")
    shutil.copy(path, copy)
    counts.check("verify", subprocess.run([cairn, "verify", copy]).returncode == 0)
    with h5py.File(copy, "r+") as file:
        file["rows"].attrs["unit"] = "m"
        counts.check("values stay", file["rows"].shape[1] == 30)
    code = subprocess.run([cairn, "verify", copy], stdout=subprocess.DEVNULL).returncode
    counts.check("a changed file", code == 1, code)


def main():
    arguments = sys.argv[1:]
    dump = arguments[0] == "--dump-values"
    if dump:
        del arguments[0]
    work, cairn, command = os.path.abspath(arguments[0]), arguments[1], arguments[2:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    subprocess.run(command + [work], check=True)
    with open(os.path.join(work, "EXPECTED.json"), encoding="utf-8") as file:
        expected = json.load(file)
    counts = Counts()
    for checkpoint in expected["checkpoints"]:
        path = os.path.join(work, "run", checkpoint["prefix"] + ".h5")
        check_file(counts, path, checkpoint)
        if shutil.which("h5dump"):
            check_h5dump(counts, path, work, checkpoint,
                         dump and checkpoint is expected["checkpoints"][-1])
    check_changed(counts, path, cairn, work)
    print("h5py", h5py.__version__, "on", expected["note"] + ":", dict(counts))
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
