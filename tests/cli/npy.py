"""What `cairn cat` prints, read by NumPy. usage: npy.py TOOL GOLDEN

npy: every numeric tensor of the good checkpoints loads with the right dtype, shape and bits.
text: reads back as the same value, for each dtype that NumPy and ml_dtypes have; of each
checkpoint two tensors of a dtype.
"""
import collections
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

tool, golden = sys.argv[1], Path(sys.argv[2])
AS_NUMPY = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16",
            "qint32": "int32", "bfloat16": "uint16"}
OWN_WORDS = {"bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz",
             "float8_e5m2fnuz", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"}


def cat(prefix, tensor, *flags):
    hexed = tensor.get("key_hex") or tensor["key"].encode().hex()  # a key may hold a zero byte
    key = [prefix, "--key-hex", hexed]
    return subprocess.run([tool, "cat", *flags, *map(str, key)], check=True,
                          stdout=subprocess.PIPE).stdout


def text_type(name):
    if name in OWN_WORDS:
        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(AS_NUMPY.get(name, name))


def check_npy(prefix, tensor):
    array = np.load(io.BytesIO(cat(prefix, tensor, "--format", "npy")))
    name = tensor["dtype"]
    wanted = AS_NUMPY.get(name, "uint8" if name in OWN_WORDS else name)
    assert array.dtype == np.dtype(wanted), (array.dtype, wanted)
    assert list(array.shape) == tensor["shape"], array.shape
    assert array.flags.c_contiguous
    raw = array.tobytes()
    assert hashlib.sha256(raw).hexdigest() == tensor["sha256"]
    return raw


def check_text(prefix, tensor, raw):
    words = cat(prefix, tensor).decode().split()
    name = tensor["dtype"]
    kind = text_type(name)
    right = np.frombuffer(raw, kind)
    assert len(words) == right.size, (len(words), right.size)
    for word, value in zip(words, right):
        if name == "bool":
            assert word == ("true" if value else "false"), (word, value)
            continue
        if name.startswith("complex"):
            got, wanted = complex(word.replace("+nan", "+0").replace("nan", "0")), complex(value)
            if got != got or wanted != wanted:
                continue
            assert kind.type(got) == value, (word, value)
            continue
        if not name.startswith(("float", "bfloat")):
            assert int(word) == int(value), (word, value)
            continue
        if word == "nan":
            assert value != value, (word, value)
            continue
        got = kind.type(float(word))
        assert got.tobytes() == value.tobytes(), (word, value)


checked = 0
for case in sorted(golden.iterdir()):
    if case.name in ("bad", "state_files") or not (case / "expected.json").is_file():
        continue
    for checkpoint in json.loads((case / "expected.json").read_text())["checkpoints"]:
        tensors, texts = checkpoint["tensors"], collections.Counter()
        for tensor in tensors[::97] if len(tensors) > 200 else tensors:
            if tensor["dtype"] in ("string", "variant") or not tensor.get("covered", True):
                continue
            if tensor["dtype"].startswith("float4") and not hasattr(ml_dtypes, "float4_e2m1fn"):
                continue
            prefix = case / checkpoint["prefix"]
            try:
                raw = check_npy(prefix, tensor)
                texts[tensor["dtype"]] += 1
                if texts[tensor["dtype"]] <= 2 and np.prod(tensor["shape"], dtype=np.int64) <= 100000:
                    check_text(prefix, tensor, raw)
            except AssertionError as error:
                sys.exit(f"{prefix} {tensor.get('key')} {tensor['dtype']}: {error}")
            checked += 1
print(checked, "tensors")
if checked < 100:
    sys.exit("too few tensors were checked")
