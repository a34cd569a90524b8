"""Each optimizer of optax, models of flax's linen and nnx: a run that saves and the runs that go on from
its checkpoint are the run without Cairn, loss by loss and state by state, to the last bit."""

import inspect
import unittest

from jax_cases import NETS, STEPS, STOP, Case, Lookahead, OfExamples, Run, bits, loss, plain, start, stepping

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from flax import nnx
from flax.training import train_state


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
    "measure_with_ema": (lambda updates, *_: updates, 0.9),
    "multi_transform": (of_some, labels), "partition": (of_some, labels),
    "named_chain": (("first", adam), ("then", optax.ema(0.9))), "scale": (0.5,),
    "scale_by_backtracking_linesearch": (3,), "scale_by_zoom_linesearch": (3,), "scale_by_schedule": (schedule,),
    "snapshot": ("norm", norm), "stateless": (lambda updates, params: updates,),
    "stateless_with_tree_map": (lambda update, parameter: update,), "trace": (0.9,),
    "with_extra_args_support": (adam,), "differentially_private_aggregate": (1.0, 0.1, jax.random.key(7)),
    "dpsgd": (0.01, 1.0, 0.1, 7), "mechanize": (adam,), "sam": (adam, optax.sgd(0.05)),
    "schedule_free": (optax.sgd(0.01), 0.01), "split_real_and_imaginary": (adam,),
}
WANTS = {"contrib.sam": (), "contrib.sophia": ("obj_fn",)}  # beside what all others get
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
    }.items():
        yield name, lambda make=make: optax.with_extra_args_support(make())


# Errors of optax itself, without Cairn.
REFUSED = {
    ("scale_by_distance_over_gradients", True): r"the existing parameter it received has shape \(1,\)",
    ("scale_by_sm3", True): "IndexError: list index out of range",
    ("sm3", True): "IndexError: list index out of range",
    ("contrib.mechanize", True): "lax.clamp requires arguments to have the same dtypes",
    ("contrib.muon", True): "ZeroDivisionError: division by zero",
    ("contrib.scale_by_muon", True): "pytree structure error: different types",
    ("contrib.scale_by_muon", False): "pytree structure error: different types",
    ("contrib.sophia", True): "primal and tangent arguments to jax.jvp do not match",
}
# If a parameter has two bytes, the dtypes of their first state differ from those after a step.
GROW = {"inject_hyperparams", "inject_hyperparams of arrays", "inject_stateful_hyperparams", "contrib.dadapt_adamw",
        "contrib.momo", "contrib.momo_adam", "contrib.prodigy"}


class Table(Case):
    def test_every_optimizer(self):
        ran, refused, grow = 0, {}, set()
        for name, make in optimizers():
            tx = make()
            step = stepping(tx, *[WANTS[one] for one in [name] if one in WANTS])
            for odd in (True, False):
                with self.subTest(name, odd=odd):
                    try:
                        step(step(start(tx, 3, odd))[0])
                    except Exception as error:  # by optax, without Cairn
                        refused[name, odd] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                        continue
                    if self.row(f"{name} {odd}", lambda seed: start(tx, seed, odd), step):
                        grow.add(name)
                    ran += 1
                break
        print(f"{ran} lines", *(f"refused without Cairn: {name}{' with odd parameters' * odd}: {why}"
                                for (name, odd), why in refused.items()),
              f"with other dtypes after some steps: {', '.join(sorted(grow))}", sep="\n")
        self.assertGreater(ran, 115)
        for (name, odd), why in refused.items():
            self.assertRegex(why, REFUSED.get((name, odd), f"^$ {name} {odd}"))
        self.assertEqual((refused.keys(), grow), (REFUSED.keys(), GROW))

    def test_train_states(self):
        """A state of flax's own class; its step is a Python number until the first step."""
        class State(train_state.TrainState):
            stats: dict
            key: jax.Array

        tx = optax.chain(optax.clip(0.5), adam)

        def make(seed):
            made = start(tx, seed)
            return State.create(apply_fn=NETS[True].apply, params=made["params"], tx=tx, stats=made["stats"],
                                key=made["key"])

        @jax.jit
        def step(state):
            key, drop = jax.random.split(state.key)
            (found, stats), grads = jax.value_and_grad(loss, has_aux=True)(
                state.params, state.stats, jax.random.normal(drop, (6, 4)), drop)
            return state.apply_gradients(grads=grads, stats=stats, key=key), found

        self.row("", make, step)
        with self.manager("before") as manager:
            manager.save(0, {"train": make(3)})
            for got in (make(4), step(make(4))[0], jax.eval_shape(lambda: make(4))):
                got = {"train": got}
                manager.restore(0, got)
                self.same(plain(got), plain({"train": make(3)}))


# -- flax nnx ---------------------------------------------------------------------------------------


class Deep(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(4, 6, rngs=rngs), nnx.Linear(6, 4, rngs=rngs)
        self.norm, self.drop = nnx.BatchNorm(6, rngs=rngs), nnx.Dropout(0.2, rngs=rngs)
        self.rngs, self.seen = rngs, nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, x):
        self.seen[...] += 1
        return self.last(self.drop(jnp.tanh(self.norm(self.first(x)))))


def made(tx, seed=0):
    net = Deep(nnx.Rngs(seed, dropout=seed + 1, data=jax.random.key(seed, impl="rbg")))
    return net, nnx.Optimizer(net, tx, wrt=nnx.Param)


@nnx.jit
def train_step(net, optimizer):
    x = jax.random.normal(net.rngs.data(), (6, 4))
    found, grads = nnx.value_and_grad(lambda net: jnp.square(net(x) - 1).mean())(net)
    optimizer.update(net, grads)
    return found


def resume_optax(manager, make):
    state = {"train": jax.eval_shape(make), "losses": [], "step": 0}  # make() gives parameters, optax's state, keys
    if manager.restore_latest(state) is None:
        state["train"] = make()
    return state


def resume_nnx(manager, make):
    graph, arrays = nnx.split(nnx.eval_shape(make))  # make() gives (model, optimizer)
    state = {"train": arrays, "losses": [], "step": 0}
    if manager.restore_latest(state) is None:
        return make(), state
    return nnx.merge(graph, state["train"]), state


def save_nnx(manager, both, state):
    state["step"] += 1
    manager.save(state["step"], {**state, "train": nnx.state(both)})


class OfNnx(Case):
    def test_code_of_the_page(self):
        tx = optax.with_extra_args_support(adam)
        step = stepping(tx)
        with self.manager() as manager:
            for number in range(STOP):
                run = Run(lambda seed: None, step)
                run.state = resume_optax(manager, lambda: start(tx, 3))
                self.assertEqual(run.state["step"], number)
                manager.save(number + 1, run.train(number + 1).state)
        self.same(run.result(), Run(lambda seed: start(tx, 3), step).train(STOP).result())
        alone = made(adam)
        losses = self.train(alone, STOP)
        with self.manager("nnx") as manager:
            for loss in losses:
                both, state = resume_nnx(manager, lambda: made(adam))
                self.assertEqual(self.train(both, 1), [loss])
                save_nnx(manager, both, state)
        self.same(plain(nnx.state(both)), plain(nnx.state(alone)))

    def train(self, both, steps):
        return [bits(train_step(*both)) for _ in range(steps)]

    def test_states(self):
        rows = {"adamw": optax.adamw(0.01), "sgd": optax.sgd(0.01, momentum=0.9), "lion": optax.lion(0.01),
                "adafactor": optax.adafactor(0.01, min_dim_size_to_factor=2), "MultiSteps": optax.MultiSteps(adam, 2),
                "inject_hyperparams": optax.inject_hyperparams(optax.adam)(schedule)}
        for name, tx in rows.items():
            with self.subTest(name), self.manager(name) as manager:
                alone = made(tx)
                losses = self.train(alone, STEPS)
                both = made(tx)
                self.assertEqual(self.train(both, STOP), losses[:STOP])
                manager.save(STOP, {"both": nnx.state(both), "step": STOP})
                then = plain(nnx.state(both))
                for resumed in (self.updated, self.merged):
                    both = resumed(manager, tx)
                    self.same(plain(nnx.state(both)), then)
                    self.assertEqual(self.train(both, STEPS - STOP), losses[STOP:])
                    self.same(plain(nnx.state(both)), plain(nnx.state(alone)))
        print(f"{2 * len(rows)} lines of nnx")

    def updated(self, manager, tx):
        """Restores into a model that exists."""
        net, optimizer = made(tx, seed=5)
        self.train((net, optimizer), 1)
        state = {"both": nnx.state((net, optimizer)), "step": 0}
        manager.restore_latest(state)
        nnx.update((net, optimizer), state["both"])
        return net, optimizer

    def merged(self, manager, tx):
        """Restores into a model that was never made."""
        graph, shapes = nnx.split(nnx.eval_shape(lambda: made(tx)))
        state = {"both": shapes, "step": 0}
        manager.restore_latest(state)
        net, optimizer = nnx.merge(graph, state["both"])
        return net, optimizer


if __name__ == "__main__":
    unittest.main()
