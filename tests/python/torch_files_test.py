"""Other people's files, read and written by their own libraries, and by the tool in CAIRN_TOOL."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

from torch_jobs import job  # first: it sets what torch reads when it is imported

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
import tensorstore
import zarr
from safetensors import safe_open
from safetensors.torch import save_file

import cairn
import cairn.torch

TOOL = os.environ["CAIRN_TOOL"]
LAUNCHER = os.environ.get("CAIRN_LAUNCHER", "").split()  # of MPI's ranks, before their number
TENSORFLOW = os.environ.get("CAIRN_TENSORFLOW", "")  # a Python that has TensorFlow and h5py
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
          torch.uint16, torch.uint32, torch.uint64]

BEYOND_NUMPY = [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def convert(*words, ranks=1):
    launch = [*LAUNCHER, str(ranks)] if ranks > 1 else []
    ran = subprocess.run([*launch, TOOL, "convert", *words], text=True, capture_output=True)
    if ran.returncode != 0:
        raise AssertionError(ran.stderr)
    return ran.stdout.strip()


def tensors():
    made = torch.Generator().manual_seed(23)
    state = {
        f"layer.{number}.w": torch.randint(0, 100, (3, 5 + number), generator=made).to(dtype)
        for number, dtype in enumerate(DTYPES)
    }
    return {**state, "scalar": torch.tensor(1.5), "empty": torch.zeros(0, 3)}


# The SHA-256 of each array's bytes, as each reader finds them.
READ_BY_OTHERS = """
import hashlib, json, sys
import h5py, numpy, tensorflow
digest = lambda value: hashlib.sha256(numpy.ascontiguousarray(value).tobytes()).hexdigest()
reader = tensorflow.train.load_checkpoint(sys.argv[1])
found = {"TensorFlow": {key: digest(reader.get_tensor(key))
                        for key in reader.get_variable_to_shape_map() if key.startswith("model/")}}
for path in sys.argv[2:]:
    with h5py.File(path) as file:
        found["h5py"] = {f"model/{key}": digest(file["model"][key][()]) for key in file["model"]}
print(json.dumps(found))
"""


def digests(tensors_by_key):
    return {key: hashlib.sha256(value.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
            .hexdigest() for key, value in tensors_by_key.items()}


def save_sharded(directory):
    """Two ranks of FSDP2 save; returns what torch has of it on one rank."""
    torch.manual_seed(23)
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3))
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    full = {f"model/{key}": value.full_tensor() if hasattr(value, "full_tensor") else value
            for key, value in model.state_dict().items()}
    with cairn.torch.Manager(directory) as manager:
        manager.save(5, {"model": model, "step": 5})
    if dist.get_rank() == 0:
        torch.save(full, f"{directory}/full.pt")


def header_and_data(path):
    """A file of safetensors: what it says of each tensor, and its bytes."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        said, data = json.loads(file.read(length)), file.read()
    said.pop("__metadata__", None)
    return {key: (one["dtype"], one["shape"], data[slice(*one["data_offsets"])])
            for key, one in said.items()}


class Unknown:
    """A class that only pickle can make."""


def dcp_state(mesh):
    """Sharded by FSDP2, by a mesh of two dimensions and unevenly; and what else is in states."""
    torch.manual_seed(23)
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))
    full = tensors()
    if mesh:
        fully_shard(model, mesh=mesh["data"])
        for number, key in enumerate(list(full)):
            if full[key].ndim == 2 and full[key].dtype in (torch.float32, torch.bfloat16,
                                                           torch.float64, torch.int64):
                cut = [Replicate(), Shard(number % 2)] if number % 3 else [Shard(1), Shard(0)]
                full[key] = distribute_tensor(full[key], mesh, cut)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = parameter.detach() * 0.5
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "full": full,
            "complex": torch.complex(torch.arange(3.0), torch.ones(3)), "step": 7, "rate": 1e-3,
            "name": "a run", "list": [1, 2.5, torch.arange(3)],
            "turned": torch.arange(6.0).view(2, 3).t(), "unknown": Unknown()}


def write_dcp(path, crc):
    torch.serialization.set_crc32_options(crc)
    state = dcp_state(init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor")))
    dcp.save(state, checkpoint_id=path)


class Files(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = made.name

    def assert_same(self, got, expected):
        self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
        self.assertEqual(*(one.contiguous().view(-1).view(torch.uint8).tolist()
                           for one in (got, expected)))

    def test_what_safetensors_wrote(self):
        save_file(tensors(), f"{self.directory}/a.safetensors", metadata={"who": "me"})
        prefix = convert(f"{self.directory}/a.safetensors", f"{self.directory}/in-3")
        self.assertEqual(cairn.open(prefix).attributes, {"who": "me"})
        state = {key: torch.zeros_like(value) for key, value in tensors().items()}
        with cairn.torch.Manager(self.directory, name="in") as manager:
            manager.restore(3, state)
        for key, value in tensors().items():
            self.assert_same(state[key], value)

    def test_what_safetensors_reads(self):
        with cairn.torch.Manager(self.directory) as manager:
            prefix = manager.save(12, {"model": tensors(), "text": "which has no place there"})
        whole = convert(prefix, f"{self.directory}/b.safetensors", "--under", "model")
        with safe_open(whole, "pt") as opened:
            self.assertEqual(set(opened.keys()), set(tensors()))
            self.assertEqual(opened.metadata(), {"format": "pt", "step": "12"})
            for key, value in tensors().items():
                self.assert_same(opened.get_tensor(key), value)
        if LAUNCHER:
            os.remove(whole)
            whole = convert(prefix, f"{self.directory}/b.safetensors", "--under", "model", ranks=3)
            with safe_open(whole, "pt") as opened:
                for key, value in tensors().items():
                    self.assert_same(opened.get_tensor(key), value)
        index = convert(prefix, f"{self.directory}/b.safetensors", "--under", "model",
                        "--max-shard-size", "200", ranks=3 if LAUNCHER else 1)
        with open(index) as file:
            weights = json.load(file)["weight_map"]
        self.assertEqual(set(weights), set(tensors()))
        self.assertGreater(len(set(weights.values())), 5)
        for key, name in weights.items():
            with safe_open(f"{self.directory}/{name}", "pt") as opened:
                self.assert_same(opened.get_tensor(key), tensors()[key])

    def test_dtypes_that_are_stored_as_bytes(self):
        """Their bytes are kept; safetensors writes the same file again. Not every version of it
        reads them."""
        mx = {"scales": torch.arange(6, dtype=torch.uint8).view(torch.float8_e8m0fnu).view(2, 3),
              "four": torch.arange(250, 256, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).view(2, 3),
              "plain": torch.arange(3, dtype=torch.uint8)}
        save_file(mx, f"{self.directory}/a.safetensors", metadata={"format": "pt", "step": "0"})
        dcp.save(mx, checkpoint_id=f"{self.directory}/dcp", no_dist=True)
        for number, source in enumerate(("a.safetensors", "dcp")):
            with self.subTest(source):
                prefix = convert(f"{self.directory}/{source}", f"{self.directory}/in-{number}")
                state = {key: torch.zeros_like(value.view(torch.uint8)).view(value.dtype)
                         for key, value in mx.items()}
                with cairn.torch.Manager(self.directory, name="in") as manager:
                    manager.restore(number, state)
                for key, value in mx.items():
                    self.assert_same(state[key], value)
                again = convert(prefix, f"{self.directory}/b-{number}.safetensors")
                written = header_and_data(again)
                written.pop("dcp/planner", None)
                self.assertEqual(written, header_and_data(f"{self.directory}/a.safetensors"))

    def test_all_agree_about_a_sharded_model(self):
        job(2, save_sharded, self.directory)
        prefix = f"{self.directory}/ckpt-5"
        expected = digests(torch.load(f"{self.directory}/full.pt", weights_only=True))
        self.assertEqual(len(expected), 9)
        whole = convert(prefix, f"{self.directory}/all.safetensors", "--under", "model")
        with safe_open(whole, "pt") as opened:
            found = {f"model/{key}": opened.get_tensor(key) for key in opened.keys()}
        self.assertEqual(digests(found), expected)
        files = [prefix]
        if "hdf5" in os.environ.get("CAIRN_PYTHON_FORMATS", "hdf5"):
            files.append(convert(prefix, f"{self.directory}/all-5.h5"))
            self.assertEqual(subprocess.run([TOOL, "diff", *files], stdout=subprocess.DEVNULL).returncode, 0)
        if not os.path.exists(TENSORFLOW):
            print("SKIPPED: TensorFlow and h5py were not asked (scripts/test installs them)", file=sys.stderr)
            return
        ran = subprocess.run([TENSORFLOW, "-c", READ_BY_OTHERS, *files], text=True,
                             stdout=subprocess.PIPE, check=True,
                             env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=""))
        for name, found in json.loads(ran.stdout.splitlines()[-1]).items():
            self.assertEqual(found, expected, name)

    def test_what_zarr_and_tensorstore_read(self):
        named = cairn.described(torch.arange(6.0).view(2, 3), units="m/s", dimensions=["y", "x"])
        kinds = {**tensors(), "complex": torch.complex(torch.arange(3.0), torch.ones(3))}
        with cairn.torch.Manager(self.directory) as manager:
            # zarr has no dtypes but NumPy's, and lists no group that has others.
            known = {key: value for key, value in kinds.items() if value.dtype not in BEYOND_NUMPY}
            others = {key: value for key, value in kinds.items() if value.dtype in BEYOND_NUMPY}
            prefix = manager.save(12, {"model": known, "others": others, "named": named})
        for size in ((), ("--max-shard-size", "30")):
            path = convert(prefix, f"{self.directory}/out{len(size)}.zarr", *size)
            root = zarr.open_group(path, mode="r", zarr_format=3)
            self.assertEqual(root.attrs["step"], 12)
            self.assertEqual(set(root["model"].array_keys()), set(known))
            self.assertEqual(root["named"].metadata.dimension_names, ("y", "x"))
            self.assertEqual(dict(root["named"].attrs), {"units": "m/s"})
            for key, value in kinds.items():
                expected = value.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
                group = "model" if key in known else "others"
                place = f"file://{path}/{group}/{key}/"
                read = tensorstore.open({"driver": "zarr3", "kvstore": place}).result()
                self.assertEqual(str(value.dtype)[6:], read.dtype.name)
                self.assertEqual(read.read().result().tobytes(), expected, key)
                if key in known:
                    self.assertEqual(root[f"model/{key}"][...].tobytes(), expected, key)
            self.assertEqual(root["named"][...].tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_a_flipped_bit_is_found_in_zarr(self):
        with cairn.torch.Manager(self.directory) as manager:
            prefix = manager.save(1, {"a": torch.arange(6.0)})
        path = convert(prefix, f"{self.directory}/out.zarr")
        with open(f"{path}/a/c/0", "r+b") as file:
            file.write(b"\x01")
        with self.assertRaisesRegex(Exception, "(?i)crc32c|checksum|digest"):
            tensorstore.open({"driver": "zarr3", "kvstore": f"file://{path}/a/"}).result().read().result()
        with self.assertRaisesRegex(Exception, "(?i)crc32c|checksum"):
            zarr.open_array(f"{path}/a", mode="r")[...]

    def test_what_dcp_wrote_on_four_ranks(self):
        for number, crc in enumerate((True, False)):
            path = f"{self.directory}/dcp-{number}"
            job(4, write_dcp, path, crc)
            prefix = convert(path, f"{self.directory}/ckpt-{number}")
            if LAUNCHER and crc:
                several = convert(path, f"{self.directory}/several-1", ranks=3)
                self.assertEqual(subprocess.run([TOOL, "diff", prefix, several]).returncode, 0)
            opened = cairn.open(prefix)
            for key, value in {"step": 7, "rate": 1e-3, "name": "a run", "list.1": 2.5,
                               "optimizer.param_groups.0.betas": [0.9, 0.999]}.items():
                self.assertEqual(opened[key].attributes, {"dcp": "bytes", "value": value}, key)
            self.assertEqual(opened["unknown"].attributes, {"dcp": "bytes"})
            self.assertGreater(len(set(os.listdir(path))), 4)
            # Each reader fills memory of nans and zeros; then DCP's own results are compared with
            # ours.
            states = []
            for reader in (dcp.FileSystemReader(path),
                           cairn.torch.StorageReader(prefix, unpickle=True)):
                state = dcp_state(None)
                for value in [*state["model"].values(), *state["full"].values(), state["complex"],
                              state["turned"], state["list"][2]]:
                    value.zero_()
                dcp.load(state, storage_reader=reader, no_dist=True)
                states.append(state)
            theirs, ours = states
            for part in ("model", "full"):
                for key in theirs[part]:
                    self.assert_same(ours[part][key], theirs[part][key])
            for key, value in tensors().items():
                self.assert_same(ours["full"][key], value)
            for key in ("complex", "turned"):
                self.assert_same(ours[key], theirs[key])
                self.assertGreater(ours[key].abs().sum(), 0)
            for number, moments in theirs["optimizer"]["state"].items():
                for key, value in moments.items():
                    self.assert_same(ours["optimizer"]["state"][number][key], value)
            self.assertEqual(ours["optimizer"]["param_groups"], theirs["optimizer"]["param_groups"])
            self.assertEqual([ours[key] for key in ("step", "rate", "name")], [7, 1e-3, "a run"])
            self.assertIsInstance(ours["unknown"], Unknown)


if __name__ == "__main__":
    unittest.main()
