"""cairn.jax on CPU devices: one process with eight, and, with the launcher that is given, several.

    jax_test.py [LAUNCHER NUMPROC_FLAG]

CAIRN_JAX_PLATFORMS=cuda,cpu: arrays that no device is named for lie on a GPU.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from says import says

DEVICES = int(os.environ.get("CAIRN_JAX_DEVICES", "8"))
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = os.environ.get("CAIRN_JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import cairn
import cairn.jax
from case import stub_errors
from collections import namedtuple

Moments = namedtuple("Moments", "count mu nu")  # as optax has them
DTYPES = [jnp.float32, jnp.bfloat16, jnp.int32, jnp.float16, jnp.bool_, jnp.uint8, jnp.complex64,
          jnp.float8_e4m3fn, *(getattr(jnp, name) for name in ("float8_e3m4", "float8_e8m0fnu")
                               if hasattr(jnp, name))]


def mesh(rows, columns):
    devices = jax.devices("cpu")[: rows * columns]
    return Mesh(np.array(devices).reshape(rows, columns), ("data", "model"))


def values(number, shape, dtype):
    return np.random.default_rng(number).integers(0, 100, shape).astype(dtype)


def placed(array, where, spec):
    return jax.make_array_from_callback(array.shape, NamedSharding(where, spec),
                                        lambda index: array[index])


def state(where, seed):
    specs = [P("data", "model"), P("model", None), P(None, "data"), P(), P(("data", "model"))]
    made = {f"{number}": placed(values(seed + number, (16, 8), dtype), where, specs[number % 5])
            for number, dtype in enumerate(DTYPES)}
    whole = {key: placed(values(seed + 50, (16,), np.float32), where, P("data"))
             for key in ("a", "b")}
    return {"params": made, "optimizer": (Moments(placed(values(seed, (), np.int32), where, P()),
                                                  whole, [whole["a"]]), None), "step": seed}


def same_everywhere(test, got, expected):
    for (path, one), other in zip(jax.tree_util.tree_flatten_with_path(got)[0],
                                  jax.tree_util.tree_leaves(expected), strict=True):
        if not isinstance(one, jax.Array):
            test.assertEqual(one, other)
            continue
        test.assertEqual((one.dtype, one.sharding), (other.dtype, other.sharding), path)
        for mine, theirs in zip(one.addressable_shards, other.addressable_shards, strict=True):
            test.assertEqual(np.asarray(mine.data).tobytes(), np.asarray(theirs.data).tobytes(), path)


class OneProcess(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = made.name

    def test_the_manager_of_another_library(self):
        self.assertFalse(hasattr(cairn.jax, "CheckpointManager"))  # which would be the one of NumPy
        state = {"w": placed(values(1, (4, 4), np.float32), mesh(2, 2), P("data", "model"))}
        with cairn.CheckpointManager(self.directory) as manager:
            with self.assertRaisesRegex(ValueError, says("several devices.*cairn.jax.Manager")):
                manager.save(1, state)

    def test_any_mesh_to_any_other(self):
        for number, save in enumerate([(2, 4), (8, 1), (1, 1)]):
            with cairn.jax.Manager(f"{self.directory}/{number}") as manager:
                manager.save(3, state(mesh(*save), 7))
                for load in [(4, 2), (1, 1), (2, 2)]:
                    got = state(mesh(*load), 0)
                    manager.restore(3, got)
                    self.assertIsInstance(got["optimizer"][0], Moments)
                    same_everywhere(self, got, state(mesh(*load), 7))

    def test_asynchronous_and_donated(self):
        before = jnp.arange(6.0)
        with cairn.jax.Manager(self.directory) as manager:
            manager.save_async(1, {"a": before})
            after = jax.jit(lambda a: a + 1, donate_argnums=0)(before)
            manager.wait()
            if before.is_deleted():
                with self.assertRaisesRegex(cairn.Error, "donated"):
                    manager.save(2, {"a": before})
            got = {"a": after}
            manager.restore(1, got)
        self.assertEqual(got["a"].tolist(), [0, 1, 2, 3, 4, 5])

    def test_the_default_device_to_a_mesh_and_back(self):
        one = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
        with cairn.jax.Manager(self.directory) as manager:
            saved = state(one, 7)
            saved["turned"] = jnp.arange(120_000.0).reshape(300, 400).T[1::3]
            manager.save_async(1, saved)
            manager.wait()
            many = state(mesh(2, 4), 0)
            many["turned"] = placed(np.zeros((133, 300), np.float32), mesh(1, 4), P(None, "model"))
            manager.restore(1, many)
            same_everywhere(self, {key: many[key] for key in ("params", "optimizer", "step")},
                            state(mesh(2, 4), 7))
            manager.save(2, many)
            back = state(one, 0)
            back["turned"] = jnp.zeros_like(saved["turned"])
            manager.restore(2, back)
        same_everywhere(self, back, saved)

    def test_structs_and_random_keys(self):
        key = jax.random.key(5)
        with cairn.jax.Manager(self.directory) as manager:
            manager.save(1, {"a": jnp.arange(8), "key": key})
            where = NamedSharding(mesh(4, 1), P("data"))
            got = {"a": jax.ShapeDtypeStruct((8,), jnp.int32, sharding=where),
                   "key": jax.random.key(0)}
            manager.restore(1, got)
            with self.assertRaisesRegex(cairn.Error, says("has no elements")):
                manager.save(2, {"a": jax.ShapeDtypeStruct((8,), jnp.int32)})
        self.assertEqual(got["a"].sharding, where)
        self.assertEqual(got["a"].tolist(), list(range(8)))
        self.assertEqual(jax.random.bits(got["key"]), jax.random.bits(key))

    def test_renamed_prefixes(self):
        with cairn.jax.Manager(self.directory) as manager:
            manager.save(1, {"params": {"a": jnp.arange(8)}, "step": 3})
            got = {"net": {"inner": {"a": jnp.zeros(8, jnp.int32)}}, "steps": 0}
            manager.restore(1, got, rename={"net/inner/*": "params/*", "steps*": "step*"})
        self.assertEqual((got["net"]["inner"]["a"].tolist(), got["steps"]), (list(range(8)), 3))

    def test_values_of_python(self):
        with cairn.jax.Manager(self.directory) as manager:
            state = {"a": {"w": jnp.arange(3.0), "step": 1, "name": "x", "n": np.arange(2)},
                     "losses": [0.5, 0.25], "best": None,
                     "more": {"list": [None, (1, 2.5)]}, "key": jax.random.key(3)}
            manager.save(1, state)
            new = {"a": {"w": jnp.zeros(3), "step": 0.5, "name": "", "n": np.zeros(2, int)}, "losses": [],
                   "best": 5, "more": None,
                   "key": jax.random.key(0)}
            manager.restore(1, new)
            self.assertEqual(new["a"].pop("w").tolist(), [0, 1, 2])
            self.assertEqual(new["a"].pop("n").tolist(), [0, 1])
            self.assertEqual(repr(new["a"]), "{'name': 'x', 'step': 1}")
            self.assertEqual([new[key] for key in ("losses", "best", "more")],
                             [state[key] for key in ("losses", "best", "more")])
            for wrong, words in [({"a": {"step": 0, "name": ""}}, "'a/n', 'a/w'"), ({"a": []}, "'a/n'"),
                                 ({"a": {**state["a"], "v": jnp.ones(1)}}, "a/v")]:
                with self.assertRaisesRegex(cairn.Error, words):
                    manager.restore(1, wrong)

    def test_the_stub_says_what_is_there(self):
        self.assertEqual(stub_errors(cairn.jax), [])

    def test_traced(self):
        with cairn.jax.Manager(self.directory) as manager:
            with self.assertRaisesRegex(cairn.Error, says("outside of jax.jit")):
                jax.jit(lambda a: manager.save(1, {"a": a}))(jnp.ones(2))

    def test_several_processes(self):
        if len(LAUNCHER) == 0:
            self.skipTest("no launcher was given")
        for processes, devices, what in [(2, 2, "save"), (3, 1, "restore"), (1, 4, "restore")]:
            ran = subprocess.run(
                [*LAUNCHER, str(processes), sys.executable, os.path.abspath(__file__), what,
                 self.directory],
                env={**os.environ, "CAIRN_JAX_DEVICES": str(devices)}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=150)
            self.assertEqual(ran.returncode, 0, ran.stdout)


def in_a_job(what, directory):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.size > 1:
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = comm.bcast(free.getsockname()[1])
        jax.distributed.initialize(f"127.0.0.1:{port}", comm.size, comm.rank)
        try:
            cairn.jax.Manager(directory)
            raise AssertionError("several processes, and no communicator")
        except cairn.Error as error:
            assert "MPI.COMM_WORLD" in str(error), error
    where = mesh(len(jax.devices("cpu")), 1) if what == "restore" else mesh(2, 2)
    test = unittest.TestCase()
    with cairn.jax.Manager(directory, comm) as manager:
        if what == "save":
            manager.save(1, only_rows(where, 7))
            drifted = only_rows(where, 8)
            wrong = np.arange(4.0) + comm.rank
            drifted["all"] = jax.make_array_from_callback(
                (4,), NamedSharding(where, P()), lambda index: wrong[index])
            try:
                manager.save(2, drifted)
                raise AssertionError("replicas that differ were saved")
            except cairn.Error as error:
                assert "not the same" in str(error), error
        else:
            got = only_rows(where, 0)
            manager.restore_latest(got)
            same_everywhere(test, got, only_rows(where, 7))


def only_rows(where, seed):
    """12 rows, which 2, 3 and 4 devices share."""
    return {"w": placed(values(seed, (12, 4), np.float32), where, P("data")),
            "all": placed(values(seed + 1, (5,), jnp.bfloat16), where, P()), "step": seed}


if __name__ == "__main__":
    if sys.argv[1:2] in (["save"], ["restore"]):
        in_a_job(*sys.argv[1:])
    else:
        LAUNCHER = sys.argv[1:]
        unittest.main(argv=sys.argv[:1])
