"""cairn convert under mpirun: all ranks read and write, and the result is that of one process.

convert_ranks.py TOOL DIRECTORY LAUNCHER...   each command is LAUNCHER NUMBER TOOL …
"""

import json
import os
import shutil
import struct
import subprocess
import sys

TOOL, DIRECTORY, *LAUNCHER = sys.argv[1:]


def run(ranks, *words, fails=None):
    """Returns its standard output. `fails`: the text that it must print once to standard error."""
    launch = [*LAUNCHER, str(ranks)] if ranks > 1 else []
    ran = subprocess.run([*launch, TOOL, *words], text=True, capture_output=True)
    if (ran.returncode == 0) != (fails is None):
        sys.exit(f"{ranks} ranks, {words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}")
    if fails is not None and ran.stderr.count(fails) != 1:
        sys.exit(f"{ranks} ranks, {words}: does not say once '{fails}':\n{ran.stderr}")
    return ran.stdout.strip()


def header_of(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        return json.loads(file.read(size)), file.read()


def tensors_of(path):
    """dtype, shape and bytes by key, of one file or of all files that an index names."""
    if path.endswith(".json"):
        with open(path) as file:
            names = json.load(file)["weight_map"]
        found = {}
        for name in set(names.values()):
            found.update(tensors_of(os.path.join(os.path.dirname(path), name)))
        assert set(found) == set(names), (set(found), set(names))
        return found
    header, data = header_of(path)
    header.pop("__metadata__", None)
    return {key: (one["dtype"], one["shape"], data[slice(*one["data_offsets"])])
            for key, one in header.items()}


def write(path, tensors):
    header, data = {"__metadata__": {"who": "me"}}, b""
    for key, (dtype, shape, content) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def at(*names):
    return os.path.join(DIRECTORY, *names)


def listing():
    return sorted(os.path.join(folder, name) for folder, folders, files in os.walk(DIRECTORY)
                  for name in folders + files)


def numbers(count, seed):
    return bytes((seed + 7 * i * i + i // 251) % 256 for i in range(count))


shutil.rmtree(DIRECTORY, ignore_errors=True)
os.makedirs(at("out"))
TENSORS = {
    "large": ("F32", [517, 129], numbers(517 * 129 * 4, 1)), "scalar": ("I64", [], numbers(8, 2)),
    "empty": ("F64", [0, 3], b""), "bytes": ("U8", [12_345], numbers(12_345, 3)),
    "halves": ("BF16", [3, 5, 7], numbers(210, 4)), "one": ("BOOL", [1], b"\1"),
}
write(at("m.safetensors"), TENSORS)

assert run(1, "convert", at("m.safetensors"), at("one-1")) == at("one-1")
assert run(3, "convert", at("m.safetensors"), at("three-1")) == at("three-1")
run(1, "diff", at("one-1"), at("three-1"))
run(1, "verify", at("three-1"))
files = [name for name in os.listdir(DIRECTORY) if name.startswith("three-1.data")]
sizes = sorted(os.path.getsize(at(name)) for name in files)
assert len(files) == 4 and sizes[-1] < sizes[-3] + 10_000, sizes  # of each rank, and the metadata

# From a checkpoint of one rank, and from one whose slices are those of three.
for source, several in (("one-1", (1,)), ("three-1", (1, 3))):
    for ranks in several:
        out = at("out", f"{source}-{ranks}.safetensors")
        assert run(ranks, "convert", at(source), out) == out
        assert tensors_of(out) == TENSORS
        index = run(ranks, "convert", at(source), out, "--max-shard-size", "20KiB")
        assert index == out + ".index.json", index
        assert tensors_of(index) == TENSORS
    for name in os.listdir(at("out")):  # the same bytes, whichever rank wrote them
        if name.startswith(f"{source}-3"):
            with open(at("out", name), "rb") as a, open(at("out", name.replace("-3", "-1", 1)), "rb") as b:
                assert name.endswith(".json") or a.read() == b.read(), name
run(2, "convert", at("out", "three-1-3.safetensors.index.json"), at("back-1"))
assert tensors_of(run(1, "convert", at("back-1"), at("back.safetensors"))) == TENSORS
# If only one process has work, the others wait for it.
assert run(2, "convert", at("one-1"), at("copy-1")) == at("copy-1")
run(1, "diff", at("one-1"), at("copy-1"))

# There is one message, and nothing is left.
before = listing()
os.mkdir(at("none"))
run(3, "convert", at("one-1"), at("back.safetensors"), fails="back.safetensors exists")
run(3, "convert", at("missing-1"), at("none", "x.safetensors"), fails="cairn: ")
run(2, "convert", at("m.safetensors"), at("one-1"), fails="exists")
with open(at("m.safetensors"), "rb") as file:
    content = file.read()
with open(at("cut.safetensors"), "wb") as file:
    file.write(content[:-1])
run(3, "convert", at("cut.safetensors"), at("none", "x-1"), fails="end behind the file")
os.remove(at("cut.safetensors"))
name = max((n for n in os.listdir(DIRECTORY) if n.startswith("three-1.data")),
           key=lambda n: os.path.getsize(at(n)))
with open(at(name), "r+b") as file:
    file.seek(5_000)
    byte = file.read(1)
    file.seek(5_000)
    file.write(bytes([byte[0] ^ 1]))
for size in ((), ("--max-shard-size", "20KiB")):
    run(2 if size else 1, "convert", at("three-1"), at("none", "x.safetensors"), *size, fails="not those that were written")
assert os.listdir(at("none")) == [], os.listdir(at("none"))
os.rmdir(at("none"))
assert listing() == before
print("right")
