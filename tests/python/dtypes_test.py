"""Dtypes that a checkpoint lacks: their bytes are stored, and restored in the same dtype."""

import json

import cairn
import numpy as np
from case import BUILT, Case

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

NAMES = ["float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "complex32",
         "float4_e2m1fn", "int4", "uint4", "int2"]
HAS_LONG = np.dtype(np.longdouble).itemsize == 16


def arrays(shape=(4, 6)):
    """One of each dtype that this machine has, with bits of all kinds."""
    made, dice = {}, np.random.default_rng(3)
    if HAS_LONG:
        thirds = np.arange(np.prod(shape)).astype(np.longdouble).reshape(shape) / 3
        made = {"long": thirds, "complex long": thirds - 1j * thirds}
    for name in NAMES if ml_dtypes else []:
        if hasattr(ml_dtypes, name):
            dtype = np.dtype(getattr(ml_dtypes, name))
            raw = dice.integers(0, 4 if dtype.kind in "iu" or "4" in name else 256, (*shape, dtype.itemsize), np.uint8)
            made[name] = raw.view(dtype)[..., 0]
    return made


def bits(array):
    """The bytes without those that an x87 number does not use."""
    raw = np.ascontiguousarray(array)[..., None].view(np.uint8)
    if array.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63:
        raw = raw.reshape(-1, 16)[:, :10]
    return str(array.dtype), array.shape, raw.tobytes()


class Dtypes(Case):
    def same(self, got, wanted):
        self.assertEqual(bits(np.asarray(got)), bits(np.asarray(wanted)), wanted.dtype)

    def test_all_come_back_of_themselves_and_in_place(self):
        saved = arrays()
        for form in BUILT:
            self.directory += form
            manager = self.manager(store={"format": form})
            views = {name: array[::2, ::-3] for name, array in saved.items()}
            zeros = {name: np.zeros((), array.dtype) for name, array in saved.items()}
            prefix = manager.save(1, {
                "a": saved, "view": views, "zero": zeros, "scalars": [one[1, 1] for one in saved.values()],
                "said": {name: cairn.described(one, units="m", dimensions=["y", "x"], order=2)
                         for name, one in saved.items()}})
            made, there = {"a": None, "view": {}, "zero": {}, "scalars": []}, {
                name: np.zeros_like(array) for name, array in saved.items()}
            manager.restore(1, made)
            manager.restore(1, {"a": dict(there)})
            opened = cairn.open(prefix)
            for number, (name, array) in enumerate(saved.items()):
                self.same(made["a"][name], array)
                self.same(there[name], array)
                self.same(made["view"][name], views[name])
                self.same(made["zero"][name], zeros[name])
                self.assertIs(type(made["scalars"][number]), type(array[1, 1]))
                self.same(made["scalars"][number], array[1, 1])
                tensor = opened[f"said/{name}"]
                self.assertEqual((tensor.shape, tensor.size, tensor.dtype, tensor.units, tensor.dimensions,
                                  tensor.attributes), ((4, 6), 24, array.dtype, "m", ["y", "x"], {"order": 2}))
                self.assertEqual([one[:2] for one in tensor.slices], [((0, 0), (4, 6))])
                self.same(tensor[1:3, ::-2], array[1:3, ::-2])
                self.same(tensor[...], array)
                self.same(tensor[2, 3], array[2, 3])

    def test_parts_and_rows(self):
        manager = self.manager()
        for step, (name, array) in enumerate(arrays().items()):
            def state(array, rows):
                parts = [cairn.slice(array[:1], (4, 6), (0, 0)), cairn.slice(array[1:], (4, 6), (1, 0))]
                return {"slice": cairn.slice(array[0].copy(), 6, 0), "patches": cairn.patches(parts),
                        "ragged": cairn.ragged(array[:rows]), "rows": cairn.resizable(array[:rows]),
                        "indexed": cairn.indexed(array.copy(), np.array([3, 1, 0, 2])),
                        "own": cairn.private(array.copy())}

            manager.save(step, state(array, 4))
            new = state(np.zeros_like(array), 0)
            manager.restore(step, new)
            for got, wanted in [
                (new["slice"].array, array[0]), (new["patches"].parts[0].array, array[:1]),
                (new["patches"].parts[1].array, array[1:]), (new["ragged"].array, array),
                (new["rows"].value, array), (new["indexed"].array, array), (new["own"].array, array),
            ]:
                self.same(got, wanted)

    def test_what_a_long_double_does_not_use_is_zero(self):
        if not HAS_LONG or np.finfo(np.longdouble).nmant != 63:
            self.skipTest("no x87")
        raw = np.full((3, 16), 0xff, np.uint8)
        raw[:, :10] = np.ones(1, np.longdouble).view(np.uint8)[:10]
        manager = self.manager()
        one, other = raw.view(np.longdouble), np.ones((3, 1), np.longdouble)
        prefix = manager.save(1, {"a": one, "b": other})
        self.assertEqual(cairn.open(prefix)["a"][...].tobytes(), cairn.open(prefix)["b"][...].tobytes())
        self.assertEqual(raw[0, 15], 0xff)

    def test_what_is_another(self):
        manager = self.manager()
        saved = arrays()
        bytes_of = {name: np.zeros((4, 6) if one.itemsize == 1 else (4, 6, one.itemsize), np.uint8)
                    for name, one in saved.items()}
        manager.save(1, {**saved, **{f"bytes of {name}": one for name, one in bytes_of.items()}})
        lacking = [name for name in saved if not name.startswith(("int", "uint", "float4"))]
        for name in lacking:
            for key, other in [(name, bytes_of[name]), (f"bytes of {name}", np.zeros_like(saved[name])),
                               (name, np.zeros((4, 6))), (name, np.zeros_like(saved[name])[:2])]:
                before = other.copy()
                self.refuses("invalid_argument", key, manager.restore, 1, {key: other})
                self.assertEqual(other.tobytes(), before.tobytes())
        others = [name for name in lacking if saved[name].itemsize == 1]
        for name, other in zip(others, others[1:]):
            self.refuses("invalid_argument", f"{other} here, and {name} in", manager.restore, 1,
                         {name: saved[other]})
        if HAS_LONG:
            gaps = cairn.sparse(cairn.slice(saved["long"], (5, 6), (1, 0)), 0)
            self.refuses("invalid_argument", "no dtype float128", manager.save, 2, {"x": gaps})
        self.refuses("invalid_argument", "newbyteorder", manager.save, 2, {"x": np.zeros(2, ">f8")})

    def test_names_that_nobody_writes(self):
        manager = self.manager()
        names = ["object", "O", "float64", "who", 7, None, ["float128"], "float128", "os.system"]
        state = {f"{number}": cairn.described(np.arange(8, dtype=np.uint8), **{"cairn.dtype": name})
                 for number, name in enumerate(names)}
        state["f"] = cairn.described(np.zeros((2, 16), np.float32), **{"cairn.dtype": "float8_e4m3"})
        opened = cairn.open(manager.save(1, state))
        for number, name in enumerate(names):
            self.assertEqual(opened[f"{number}"][...].tolist(), list(range(8)))
            if name is not None:
                self.refuses("unsupported", json.dumps(name), manager.restore, 1, {f"{number}": None})
        self.assertEqual(opened["f"][1, 3], 0.0)
        new = {"f": None}
        manager.restore(1, new)
        self.assertEqual(new["f"].dtype, np.float32)
