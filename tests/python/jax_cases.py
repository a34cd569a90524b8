"""Shared by the tables of cairn.jax: a model, the runs that train it, and the comparison."""

import os
import tempfile
import unittest
import warnings
from says import says

os.environ["XLA_FLAGS"] = ("--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 "
                           "--xla_llvm_disable_expensive_passes=true")  # which compiles in half the time
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen

import cairn
import cairn.jax

warnings.simplefilter("ignore")  # JAX's own: of what is deprecated
STEPS, STOP = 4, 2


# -- what is compared -------------------------------------------------------------------------------


def bits(value):
    """The type of a value, and its elements on each device."""
    if not isinstance(value, jax.Array):
        array = np.asarray(value)
        return type(value).__name__, str(array.dtype), array.shape, array.tobytes()
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = jax.random.key_data(value).addressable_shards
        return "key", str(jax.random.key_impl(value)), value.sharding, [np.asarray(one.data).tobytes() for one in data]
    each = [(str(one.device), np.asarray(one.data).tobytes()) for one in value.addressable_shards]
    return "array", str(value.dtype), value.weak_type, value.shape, value.sharding, value.committed, each


def plain(tree):
    found, form = jax.tree_util.tree_flatten_with_path(tree)
    return form, {jax.tree_util.keystr(path): bits(one) for path, one in found}


def shapes_of(tree):
    return jax.eval_shape(lambda: tree)


def grows(tree, then):
    """Whether some of its arrays get other dtypes."""
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(then), strict=True)
    return any(getattr(one, "dtype", other.dtype) != other.dtype for one, other in pairs)


# -- runs -------------------------------------------------------------------------------------------


class Net(linen.Module):
    """A model with statistics of batches and dropout and, if it is odd, a scalar, a parameter of
    two bytes and one without elements."""

    odd: bool

    @linen.compact
    def __call__(self, x):
        x = linen.BatchNorm(use_running_average=False)(linen.Dense(6, use_bias=False)(x))
        x = linen.Dropout(0.2, deterministic=False)(jnp.tanh(x))
        x = linen.Dense(4, use_bias=False)(x)
        if not self.odd:
            return x
        self.param("none", linen.initializers.ones, (0, 2))
        x = x * self.param("scale", linen.initializers.ones, ())
        return x * self.param("coarse", linen.initializers.ones, (4,), jnp.bfloat16)


NETS = {odd: Net(odd) for odd in (True, False)}


def start(tx, seed, odd=True):
    first, key = jax.random.split(jax.random.key(seed))
    made = NETS[odd].init({"params": first, "dropout": first}, jnp.ones((6, 4)))
    params = made["params"]
    if isinstance(tx, Lookahead):
        params = optax.LookaheadParams.init_synced(params)
    return {"params": params, "stats": made["batch_stats"], "optimizer": tx.init(params), "key": key,
            "old": jax.random.PRNGKey(seed), "keys": jax.random.split(jax.random.key(seed, impl="rbg"), 3),
            "step": 0, "nothing": None}


class Lookahead(optax.GradientTransformationExtraArgs):
    """A model with two sets of parameters."""


class OfExamples(optax.GradientTransformationExtraArgs):
    """Wants gradients of each example."""


def loss(params, stats, x, drop):
    net = NETS["none" in params]
    y, changed = net.apply({"params": params, "batch_stats": stats}, x, rngs={"dropout": drop},
                           mutable=["batch_stats"])
    return jnp.square(y - 1).mean(), changed["batch_stats"]


@jax.jit
def backward(params, state):
    """All of a step except the optimizer, compiled once."""
    key, drop, draw = jax.random.split(state["key"], 3)
    old, more = jax.random.split(state["old"])
    x = jax.random.normal(draw, (6, 4)) + 0.1 * jax.random.normal(more, (4,))
    keys = jax.vmap(lambda one: jax.random.split(one)[0])(state["keys"])
    (found, stats), grads = jax.value_and_grad(loss, has_aux=True)(params, state["stats"], x, drop)
    return found, grads, (state["stats"], x, drop), {
        "stats": stats, "key": key, "old": old, "keys": keys, "step": state["step"] + 1}


def stepping(tx, wants=("value", "grad", "value_fn")):
    """Makes a function from a state to (the next state, loss)."""

    @jax.jit
    def update(found, grads, batch, optimizer, params):
        if isinstance(tx, OfExamples):
            grads = jax.tree.map(lambda one: jnp.stack([one, 2 * one]), grads)
        value = lambda params: loss(params, *batch)[0]
        more = {"value": found, "grad": grads, "value_fn": value, "obj_fn": value}
        updates, optimizer = tx.update(grads, optimizer, params, **{name: more[name] for name in wants})
        return optax.apply_updates(params, updates), optimizer

    def step(state):
        params, optimizer = state["params"], state["optimizer"]
        found, grads, batch, rest = backward(getattr(params, "fast", params), {
            name: state[name] for name in ("stats", "key", "old", "keys", "step")})
        params, optimizer = update(found, grads, batch, optimizer, params)
        return {**state, **rest, "params": params, "optimizer": optimizer}, found

    return step


class Run:
    """Trains from the beginning, or from a state that a restore has filled."""

    def __init__(self, start, step, resumes=False):
        self.state = {"train": start(5 if resumes else 3), "losses": [], "step": 0}
        self.step = step

    def train(self, end):
        for _ in range(self.state["step"], end):
            self.state["train"], loss = self.step(self.state["train"])
            self.state["losses"].append(float(loss))
            self.state["step"] += 1
        return self

    def result(self):
        return plain(self.state)


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = f"{made.name}/run"

    def manager(self, name=""):
        return cairn.jax.Manager(f"{self.directory}{name}")

    def same(self, got, expected):
        self.assertEqual(got[0], expected[0])
        self.assertEqual({key for key in expected[1] if got[1].get(key) != expected[1][key]}, set())
        self.assertEqual(got[1], expected[1])

    def row(self, name, start, step):
        """Makes all runs of one row of a table. Returns the state of the run without Cairn."""
        alone = Run(start, step).train(STEPS).result()
        with self.manager(name) as manager:
            run = Run(start, step)
            self.assertIsNone(manager.restore_latest(run.state))
            (manager.save_async if len(name) % 2 else manager.save)(STOP, run.train(STOP).state)
            self.same(run.train(STEPS).result(), alone)
        stopped = Run(start, step).train(STOP).result()
        used = lambda seed: Run(start, step, seed == 5).train(STOP).state["train"]
        is_growing = grows(start(3), used(3))
        structs = (lambda seed: jax.eval_shape(lambda: start(seed))), (lambda seed: shapes_of(used(seed)))
        with self.manager(name) as manager:
            for number, resumed in enumerate((start, used, *structs)):
                run = Run(resumed, step, True)
                if is_growing and number in (0, 2):  # which have not the dtypes that steps give
                    with self.assertRaisesRegex(cairn.Error, says("in the checkpoint .* and bfloat16 .* in the state")):
                        manager.restore_latest(run.state)
                    continue
                self.assertIsNotNone(manager.restore_latest(run.state))
                self.same(run.result(), stopped)
                self.same(run.train(STEPS).result(), alone)
        return is_growing
