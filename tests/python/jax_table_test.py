"""Each optimizer of optax, models of flax's linen and nnx: a run that saves and the runs that go on from
its checkpoint are the run without Cairn, loss by loss and state by state, to the last bit; on 8 devices, on
4 and on 2."""

import inspect
import os
import tempfile
import unittest
import warnings

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from flax import linen, nnx
from flax.training import train_state
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import cairn
import cairn.jax

warnings.simplefilter("ignore")  # JAX's own: of what is deprecated
STEPS, STOP = 4, 2


# -- what is compared -------------------------------------------------------------------------------


def bits(value):
    """What it is, and its elements on each device."""
    if not isinstance(value, jax.Array):
        array = np.asarray(value)
        return type(value).__name__, str(array.dtype), array.shape, array.tobytes()
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return "key", str(jax.random.key_impl(value)), value.sharding, bits(jax.random.key_data(value))
    each = [(str(one.device), np.asarray(one.data).tobytes()) for one in value.addressable_shards]
    return "array", str(value.dtype), value.weak_type, value.shape, value.sharding, value.committed, each


def plain(tree):
    found, form = jax.tree_util.tree_flatten_with_path(tree)
    return form, {jax.tree_util.keystr(path): bits(one) for path, one in found}


# -- runs -------------------------------------------------------------------------------------------


class Net(linen.Module):
    """With statistics of batches, dropout, a scalar, a parameter of two bytes and one without elements."""

    @linen.compact
    def __call__(self, x):
        x = linen.BatchNorm(use_running_average=False)(linen.Dense(6)(x))
        x = linen.Dropout(0.2, deterministic=False)(jnp.tanh(x))
        x = linen.Dense(4)(x) * self.param("scale", linen.initializers.ones, ())
        self.param("none", linen.initializers.ones, (0, 2))
        return x * self.param("coarse", linen.initializers.ones, (4,), jnp.bfloat16)


NET = Net()


def start(tx, seed):
    first, key = jax.random.split(jax.random.key(seed))
    made = NET.init({"params": first, "dropout": first}, jnp.ones((6, 4)))
    params = made["params"]
    if isinstance(tx, Lookahead):
        params = optax.LookaheadParams.init_synced(params)
    return {"params": params, "stats": made["batch_stats"], "optimizer": tx.init(params), "key": key,
            "old": jax.random.PRNGKey(seed), "keys": jax.random.split(jax.random.key(seed, impl="rbg"), 3),
            "step": 0, "nothing": None}


class Lookahead(optax.GradientTransformationExtraArgs):
    """Of two sets of parameters."""


class OfExamples(optax.GradientTransformationExtraArgs):
    """Wants gradients of each example."""


def loss(params, stats, x, drop):
    y, changed = NET.apply({"params": params, "batch_stats": stats}, x, rngs={"dropout": drop}, mutable=["batch_stats"])
    return jnp.square(y - 1).mean(), changed["batch_stats"]


@jax.jit
def backward(params, state):
    """All of a step but the optimizer, compiled once."""
    key, drop, draw = jax.random.split(state["key"], 3)
    old, more = jax.random.split(state["old"])
    x = jax.random.normal(draw, (6, 4)) + 0.1 * jax.random.normal(more, (4,))
    keys = jax.vmap(lambda one: jax.random.split(one)[0])(state["keys"])
    (found, stats), grads = jax.value_and_grad(loss, has_aux=True)(params, state["stats"], x, drop)
    return found, grads, (state["stats"], x, drop), {
        "stats": stats, "key": key, "old": old, "keys": keys, "step": state["step"] + 1}


def stepping(tx):
    """What makes (the next state, loss) of a state."""

    @jax.jit
    def update(found, grads, batch, optimizer, params):
        if isinstance(tx, OfExamples):
            grads = jax.tree.map(lambda one: jnp.stack([one, 2 * one]), grads)
        value = lambda params: loss(params, *batch)[0]
        updates, optimizer = tx.update(grads, optimizer, params, value=found, grad=grads, value_fn=value, obj_fn=value)
        return optax.apply_updates(params, updates), optimizer

    def step(state):
        params, optimizer = state["params"], state["optimizer"]
        found, grads, batch, rest = backward(getattr(params, "fast", params), {
            name: state[name] for name in ("stats", "key", "old", "keys", "step")})
        params, optimizer = update(found, grads, batch, optimizer, params)
        return {**state, **rest, "params": params, "optimizer": optimizer}, found

    return step


class Run:
    """Trains from the beginning, or from what a restore has put into its state."""

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


# -- optimizers -------------------------------------------------------------------------------------


def schedule(step):
    return 0.1 / (1 + step)


def wide(params):
    return jax.tree.map(lambda one: one.ndim > 1, params)


def norm(updates, *_):
    return optax.tree.norm(updates)


adam = optax.adam(0.01)
of_some = {"wide": adam, "other": optax.sgd(0.01, momentum=0.9)}


def labels(params):
    return jax.tree.map(lambda one: "wide" if one.ndim > 1 else "other", params)


GIVEN = {  # what those are made of that take more than a learning rate
    "adaptive_grad_clip": (0.1,), "add_noise": (0.1, 0.5, jax.random.key(7)), "apply_if_finite": (adam, 2),
    "chain": (optax.clip_by_global_norm(0.1), adam, optax.ema(0.9)), "clip": (0.1,),
    "clip_by_block_rms": (0.1,), "clip_by_global_norm": (0.1,),
    "conditionally_mask": (adam, lambda step: step % 2 == 0),
    "conditionally_transform": (adam, lambda step: step % 2 == 0), "ema": (0.9,), "flatten": (adam,),
    "freeze": (wide,), "lookahead": (adam, 3, 0.5), "masked": (adam, wide),
    "measure_with_ema": (norm, 0.9), "multi_transform": (of_some, labels), "partition": (of_some, labels),
    "named_chain": (("first", adam), ("then", optax.ema(0.9))), "scale": (0.5,),
    "scale_by_backtracking_linesearch": (3,), "scale_by_zoom_linesearch": (3,), "scale_by_schedule": (schedule,),
    "snapshot": ("norm", norm), "stateless": (lambda updates, params: updates,),
    "stateless_with_tree_map": (lambda update, parameter: update,), "trace": (0.9,),
    "with_extra_args_support": (adam,), "differentially_private_aggregate": (1.0, 0.1, jax.random.key(7)),
    "dpsgd": (0.01, 1.0, 0.1, jax.random.key(7)), "mechanize": (adam,), "sam": (adam, optax.sgd(0.05)),
    "schedule_free": (optax.sgd(0.01), 0.01), "split_real_and_imaginary": (adam,),
}
NAMED = {"selective_transform": {"freeze_mask": wide}, "galore": {"rank": 2}}


def optimizers():
    """(name, what makes it)"""
    for module in (optax, optax.contrib):
        for name, function in sorted(vars(module).items()):
            if name.startswith(("_", "inject_")) or not inspect.isfunction(function) or (
                    "GradientTransformation" not in str(inspect.signature(function).return_annotation)):
                continue
            wanted = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
            given = GIVEN.get(name, (0.01,) if "learning_rate" in [one.name for one in wanted] else ())
            if name == "selective_transform":
                given = (adam,)

            def make(name=name, function=function, given=given):
                made = optax.with_extra_args_support(function(*given, **NAMED.get(name, {})))
                if name in ("differentially_private_aggregate", "dpsgd"):
                    return OfExamples(*made)
                if name == "lookahead":
                    return Lookahead(*made)
                is_whole = any("learning_rate" == one.name for one in wanted) or adam in given
                return made if is_whole else optax.chain(made, optax.scale(-0.01))

            yield f"{'contrib.' * (module is optax.contrib)}{name}", make
    for name, make in {
        "sgd momentum": lambda: optax.sgd(0.01, momentum=0.9, nesterov=True),
        "sgd with a schedule": lambda: optax.sgd(schedule, momentum=0.9, accumulator_dtype=jnp.bfloat16),
        "adafactor with moments": lambda: optax.adafactor(0.01, min_dim_size_to_factor=2, momentum=0.9),
        "adamw masked": lambda: optax.adamw(optax.cosine_decay_schedule(0.1, 9), mask=wide, mu_dtype=jnp.bfloat16),
        "MultiSteps": lambda: optax.MultiSteps(adam, 3).gradient_transformation(),
        "MultiSteps of a schedule": lambda: optax.MultiSteps(adam, lambda step: 1 + step).gradient_transformation(),
        "inject_hyperparams": lambda: optax.inject_hyperparams(optax.adamw)(schedule, b1=0.8),
        "inject_hyperparams of arrays": lambda: optax.inject_hyperparams(optax.sgd)(jnp.asarray(0.1), momentum=0.9),
        "inject_stateful_hyperparams": lambda: optax.inject_stateful_hyperparams(optax.lion)(0.01),
        "nothing in optax.chain": optax.chain,
    }.items():
        yield name, lambda make=make: optax.with_extra_args_support(make())


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
        """All runs of one row of a table. Returns the state of the one without Cairn."""
        alone = Run(start, step).train(STEPS).result()
        with self.manager(name) as manager:
            run = Run(start, step)
            self.assertIsNone(manager.restore_latest(run.state))
            (manager.save_async if len(name) % 2 else manager.save)(STOP, run.train(STOP).state)
            self.same(run.train(STEPS).result(), alone)
        stopped = Run(start, step).train(STOP).result()
        structs = lambda seed: jax.eval_shape(lambda: start(seed))
        with self.manager(name) as manager:
            for run in (Run(start, step, True), Run(start, step, True).train(1), Run(structs, step, True)):
                self.assertIsNotNone(manager.restore_latest(run.state))
                self.same(run.result(), stopped)
                self.same(run.train(STEPS).result(), alone)


class Table(Case):
    def test_every_optimizer(self):
        ran, refused = 0, {}
        for name, make in optimizers():
            with self.subTest(name):
                try:
                    tx = make()
                    step = stepping(tx)
                    step(start(tx, 3))
                except Exception as error:  # by optax, without Cairn
                    refused[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                    continue
                self.row(name, lambda seed, tx=tx: start(tx, seed), step)
                ran += 1
        print(f"{ran} lines", *(f"refused without Cairn: {name}: {why}" for name, why in refused.items()),
              sep="\n")


if __name__ == "__main__":
    unittest.main()
