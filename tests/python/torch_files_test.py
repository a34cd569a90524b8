"""Files of safetensors, read and written by its own library, and by the tool in CAIRN_TOOL."""

import json
import os
import subprocess
import tempfile
import unittest

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import cairn
import cairn.torch

TOOL = os.environ["CAIRN_TOOL"]
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
          torch.uint16, torch.uint32, torch.uint64]


def convert(*words):
    ran = subprocess.run([TOOL, "convert", *words], text=True, capture_output=True)
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
        index = convert(prefix, f"{self.directory}/b.safetensors", "--under", "model",
                        "--max-shard-size", "200")
        with open(index) as file:
            weights = json.load(file)["weight_map"]
        self.assertEqual(set(weights), set(tensors()))
        self.assertGreater(len(set(weights.values())), 5)
        for key, name in weights.items():
            with safe_open(f"{self.directory}/{name}", "pt") as opened:
                self.assert_same(opened.get_tensor(key), tensors()[key])


if __name__ == "__main__":
    unittest.main()
