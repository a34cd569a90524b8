"""States of JAX: on 8 devices, on 4 and on 2, of every dtype, and their values that are no
arrays."""

import unittest

from jax_cases import STOP, Case, plain, start, stepping

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import cairn
import cairn.jax
from says import says


# -- meshes -----------------------------------------------------------------------------------------


def mesh_of(rows, columns):
    return jax.make_mesh((rows, columns), ("data", "model"), axis_types=(AxisType.Auto,) * 2,
                         devices=jax.devices()[: rows * columns])


def spec_of(one):
    """Every array with rows is cut."""
    is_even = [extent % 4 == 0 and extent > 0 for extent in one.shape]
    return P(*[axis if even else None for axis, even in zip(("model", "data"), is_even)])


def on(mesh, tree):
    """Structs of this tree, placed on the mesh."""
    return jax.tree.map(lambda one: jax.ShapeDtypeStruct(
        one.shape, one.dtype, sharding=NamedSharding(mesh, spec_of(one))), tree)


class Versions(Case):
    def test_what_an_older_version_saved(self):
        def manager(version, **hooks):
            return cairn.jax.Manager(self.directory, store={"application": {"version": version}}, hooks=hooks)

        def migrate(saved_by, how):
            how.options["rename"]["train/kelvin"] = "train/celsius"
            how.finish = lambda: how.state["train"].update(kelvin=how.state["train"]["kelvin"] + 273.15)

        celsius = jnp.array([20, 21], jnp.float32)
        with manager("1") as one:
            one.save(1, {"train": {"celsius": celsius}, "step": 3})
        state = {"train": {"kelvin": jnp.zeros(2, jnp.float32)}, "step": 0}
        with manager("2", migrate=migrate) as one:
            one.restore_latest(state)
        self.assertEqual(np.asarray(state["train"]["kelvin"]).tobytes(), np.asarray(celsius + 273.15).tobytes())
        self.assertEqual(state["step"], 3)


class Meshes(Case):
    def test_eight_devices_to_four_and_two(self):
        lines = 0
        for tx in (optax.adamw(0.01), optax.adafactor(0.01, min_dim_size_to_factor=2), optax.sgd(0.01, momentum=0.9)):
            tx = optax.with_extra_args_support(tx)
            step = stepping(tx)
            shapes = jax.eval_shape(lambda: step(start(tx, 3))[0])
            placed = lambda mesh, tree: jax.device_put(tree, jax.tree.map(lambda one: one.sharding, on(mesh, shapes)))
            state = placed(mesh_of(4, 2), step(start(tx, 3))[0])
            for _ in range(STOP):
                state, _ = step(state)
            state = placed(mesh_of(4, 2), state)
            with self.manager(lines) as manager:
                manager.save(1, {"train": state})
                for rows, columns in ((2, 2), (2, 1), (4, 2)):
                    mesh = mesh_of(rows, columns)
                    alone = placed(mesh, jax.device_put(state, jax.devices()[0]))
                    for target in (on(mesh, shapes), placed(mesh, step(start(tx, 5))[0])):
                        got = {"train": target}
                        manager.restore(1, got)
                        self.same(plain(got["train"]), plain(alone))
                    self.same(*(plain(step(one)) for one in (got["train"], alone)))
                    manager.save(2, got)
                    back = {"train": on(mesh_of(4, 2), shapes)}
                    manager.restore(2, back)
                    self.same(plain(back["train"]), plain(state))
                    lines += 1
        print(f"{lines} lines of meshes")

    def test_what_lies_nowhere_by_name(self):
        """An array without a placement goes to the devices of those that are used with it."""
        cut = jax.device_put(jnp.arange(8.0), NamedSharding(mesh_of(8, 1), P("data")))
        state = {"a": {"w": cut, "n": jnp.int32(3), "m": jnp.ones(8)}}
        with self.manager() as manager:
            manager.save(1, state)
            for n, m in ((jnp.int32(0), jnp.zeros(8)), jax.eval_shape(lambda: (jnp.int32(0), jnp.zeros(8)))):
                got = {"a": {"w": cut, "n": n, "m": m}}
                manager.restore(1, got)
                self.same(plain(got), plain(state))
                self.same(*(plain(jax.jit(lambda a: a["w"] * a["n"] + a["m"])(one["a"])) for one in (got, state)))

    def test_meshes_by_their_names_alone(self):
        mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
        with jax.set_mesh(mesh):
            shapes = jax.eval_shape(lambda: {"a": jnp.zeros(8, out_sharding=P("data"))})
            state = {"a": jnp.arange(8.0, out_sharding=P("data")) + 0.5}
        with self.manager() as manager:
            manager.save(1, state)
            with self.assertRaisesRegex(cairn.Error, says("a mesh without devices")):
                manager.restore(1, dict(shapes))
            with jax.set_mesh(mesh):
                manager.restore(1, shapes)
        self.same(plain(shapes), plain(state))


# -- values -----------------------------------------------------------------------------------------


class Values(Case):
    def test_every_dtype(self):
        ran, refused = 0, set()
        for name in sorted(name for name, one in vars(jnp).items() if isinstance(one, type(jnp.float32))):
            try:
                row = jnp.asarray(np.arange(-2, 6), getattr(jnp, name))
                state = {"a": {"row": row, "one": row[3], "none": row[:0], "wide": jnp.zeros((3, 0), row.dtype),
                               "cut": jax.device_put(row, NamedSharding(mesh_of(4, 2), P("data")))}}
                plain(state)
            except Exception:  # by JAX
                refused.add(name)
                continue
            with self.subTest(name), self.manager(name) as manager:
                manager.save(1, state)
                structs = jax.tree.map(lambda one: jax.ShapeDtypeStruct(
                    one.shape, one.dtype, sharding=one.sharding if one.committed else None), state)
                for got in (jax.tree.map(jnp.zeros_like, state), structs, {"a": {**structs["a"], "one": 0}}):
                    manager.restore(1, got)
                    self.same(plain(got), plain(state))
            ran += 1
        print(f"{ran} lines of dtypes", f"refused without Cairn: {', '.join(sorted(refused))}", sep="\n")
        self.assertEqual(refused, {"float6_e2m3fn", "float6_e3m2fn", "int1", "uint1"})

    def test_64_bits(self):
        with self.manager() as manager:
            with jax.enable_x64(True):
                state = {"a": jnp.arange(3.0), "n": jnp.asarray(1 << 40), "t": jnp.float64(0.1)}
                manager.save(1, state)
                got = jax.eval_shape(lambda: jax.tree.map(jnp.zeros_like, state))
                manager.restore(1, got)
                self.same(plain(got), plain(state))
            for wrong in ({"a": jax.ShapeDtypeStruct((3,), np.float64)}, {"n": 0}):
                with self.assertRaisesRegex(cairn.Error, "jax_enable_x64"):
                    manager.restore(1, wrong)

    def test_what_was_saved_decides(self):
        weak = jnp.asarray(-0.0), jnp.asarray(3), jnp.broadcast_to(jnp.asarray(0.5), (3,))
        state = {"a": {"weak": weak, "strong": jnp.float32(2), "int": 3, "float": 0.1, "bool": True, "np": np.int32(4),
                       "truth": jnp.bool_(True), "none": None, "empty": (optax.EmptyState(), {}, [], ()),
                       "masked": optax.MaskedNode(), "text": "x"},
                 "e": optax.EmptyState(), "key": jax.random.key(3), "old": jax.random.PRNGKey(3)}
        other = {"a": {**state["a"], "weak": (1.0, 2, jnp.zeros(3)), "strong": jnp.asarray(1.0), "int": jnp.int32(0),
                       "float": jnp.float32(0), "bool": jnp.bool_(False), "np": 0, "truth": False, "text": ""},
                 "e": optax.EmptyState(), "key": None, "old": jnp.zeros(2, jnp.uint32)}
        structs = {**other, "a": {**other["a"], "weak": jax.eval_shape(lambda: weak),
                                          "int": jax.ShapeDtypeStruct((), jnp.int32)},
                   "key": jax.eval_shape(lambda: jax.random.key(0))}
        with self.manager() as manager:
            manager.save(1, state)
            for got in (other, structs):
                manager.restore(1, got)
                self.same(plain(got), plain(state))
            kinds = {"threefry2x32", "rbg", "unsafe_rbg"}
            manager.save(2, {kind: jax.random.key(1, impl=kind) for kind in kinds})
            for kind in kinds:
                for other in (*(kinds - {kind}), None):
                    key = jax.random.key(0, impl=other) if other else jnp.zeros(2, jnp.uint32)
                    with self.assertRaisesRegex(cairn.Error, f"'{kind}' .*and was a random key of {kind}"):
                        manager.restore(2, {kind: key})
            with self.assertRaisesRegex(cairn.Error, says("and was an array")):
                manager.restore(1, {"old": jax.random.key(0)})


if __name__ == "__main__":
    unittest.main()
