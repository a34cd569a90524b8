"""What was saved decides what comes back, with torch: a run that is stopped and resumed is the run that
was left alone and knows no Cairn, loss by loss and state dict by state dict, to the last bit."""

import collections
import gc
import pickle
import random
import resource
import tempfile
import traceback
import unittest
import warnings
import weakref

from torch_jobs import job  # first: it sets what torch reads when it is imported

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

import cairn
import cairn.torch

torch.set_num_threads(1)
warnings.filterwarnings("ignore", "Converting a tensor with requires_grad=True")  # LBFGS's own
OPTIMIZERS = sorted(name for name, one in vars(torch.optim).items()
                    if isinstance(one, type) and issubclass(one, torch.optim.Optimizer)
                    and one is not torch.optim.Optimizer)
STEPS = 6


def plain(value):
    """Values with their classes, and the order of keys; of tensors the bits."""
    if isinstance(value, torch.Tensor):
        value = value.full_tensor() if isinstance(value, DTensor) else value
        flat = value.detach().cpu().resolve_conj().contiguous().reshape(-1)
        return "tensor", str(value.dtype), tuple(value.shape), flat.view(torch.uint8).numpy().tobytes()
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__, str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value).__name__, [(type(key).__name__, key, plain(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(one) for one in value]
    return type(value).__name__, repr(value)


def random_states():
    return plain([torch.get_rng_state(), np.random.get_state(), random.getstate()])


class Net(torch.nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 6, sparse=sparse)
        self.first, self.norm = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8)
        self.unused = torch.nn.Linear(3, 3)
        self.last, self.scale = torch.nn.Linear(8, 4), torch.nn.Parameter(torch.ones(()))

    def forward(self, tokens):
        hidden = self.norm(self.first(self.embedding(tokens))).relu()
        return self.last(torch.nn.functional.dropout(hidden, 0.3)) * self.scale


def parts_of(name):
    torch.manual_seed(3)
    net = Net(sparse=name == "SparseAdam")
    parameters = [one for one in net.parameters() if name != "Muon" or one.dim() == 2]
    if name == "SparseAdam":
        parameters = [net.embedding.weight]
    more = {"SGD": {"momentum": 0.9, "dampening": 0.1}, "RMSprop": {"momentum": 0.9, "centered": True},
            "LBFGS": {"lr": 1, "max_iter": 3, "history_size": 3}, "AdamW": {"amsgrad": True}}
    optimizer = getattr(torch.optim, name)(parameters, **{"lr": 0.01, **more.get(name, {})})
    return net, optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4, 4])


def trained(directory, stop, place):
    """Trains a model with each optimizer, to the end or until it has saved this step; without a
    directory there is no Cairn."""
    random.seed(1)
    np.random.seed(2)
    parts = {name: parts_of(name) for name in OPTIMIZERS}
    torch.manual_seed(5)
    losses, best = [], {"loss": None, "step": None}
    state = {name: dict(zip(("model", "optimizer", "schedule"), one)) for name, one in parts.items()}
    state.update(step=0, losses=losses, best=best, note=None)
    if directory:
        state["random"] = cairn.torch.RandomStates()
        manager = cairn.torch.Manager(directory, max_to_keep=2)
        manager.restore_latest(state)
    while True:
        if directory and state["step"] == stop:
            manager.save(stop, state)
            break
        if state["step"] == STEPS:
            break
        row = {}
        for name, (net, optimizer, schedule) in parts.items():
            tokens, noise = torch.randint(0, 7, (16,)), random.gauss(0, 1) + np.random.randn()

            def closure():
                optimizer.zero_grad()
                loss = (net(tokens) - noise).square().mean()
                loss.backward()
                return loss

            row[name] = optimizer.step(closure).item()
            schedule.step()
        losses.append(row["Adam"])
        if best["loss"] is None or row["Adam"] < best["loss"]:
            best.update(loss=row["Adam"], step=state["step"])
        state["step"] += 1
        state["note"] = [None, 3, 2**70, (1, 2.5)][state["step"] % 4]
    result = {name: [plain(part.state_dict()) for part in one] for name, one in parts.items()}
    result["rest"] = plain([losses, best, state["note"], state["step"]]), random_states()
    with open(place, "wb") as file:
        pickle.dump(result, file)
    if directory:
        manager.close()


class Case(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.place = made.name
        self.directory = f"{made.name}/run"

    def manager(self, **options):
        manager = cairn.torch.Manager(self.directory, **options)
        self.addCleanup(manager.close)
        return manager

    def refuses(self, code, words, call, *given, **named):
        with self.assertRaises(cairn.Error) as caught:
            call(*given, **named)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(words, str(caught.exception))
        return caught.exception


class Training(Case):
    def trained(self, directory, stop):
        job(0, trained, directory, stop, f"{self.place}/result")
        with open(f"{self.place}/result", "rb") as file:
            return pickle.load(file)

    def test_every_optimizer(self):
        self.assertGreater(len(OPTIMIZERS), 13)
        alone = self.trained(None, None)
        for number, stops in enumerate([[], [0], [3], [1, 5]]):
            for stop in stops:
                self.trained(f"{self.directory}-{number}", stop)
            got = self.trained(f"{self.directory}-{number}", -1)
            for name, expected in alone.items():
                self.assertEqual(got[name], expected, (stops, name))

    def test_an_empty_directory_changes_nothing(self):
        class Touchy:
            """What may not be asked before there is something to be restored."""

            def state_dict(self):
                raise AssertionError("it was asked")

            load_state_dict = state_dict

        net, optimizer, schedule = parts_of("Adam")
        net.first.weight.grad = torch.ones_like(net.first.weight)
        before = plain([net.state_dict(), optimizer.state_dict(), schedule.state_dict()]), random_states()
        state = {"net": net, "optimizer": optimizer, "schedule": schedule, "touchy": Touchy(),
                 "random": cairn.torch.RandomStates()}
        manager = self.manager()
        self.assertIsNone(manager.restore_latest(state))
        self.refuses("not_found", "7", manager.restore, 7, state)
        self.assertEqual((plain([net.state_dict(), optimizer.state_dict(), schedule.state_dict()]),
                          random_states()), before)
        self.assertTrue(torch.equal(net.first.weight.grad, torch.ones_like(net.first.weight)))
        self.assertEqual([one.grad for one in net.unused.parameters()], [None, None])

    def test_a_restore_that_fails_touches_nothing(self):
        net, optimizer, schedule = parts_of("Adam")
        self.step(net, optimizer)
        manager = self.manager()
        manager.save(1, {"net": net, "optimizer": optimizer})
        other, fresh, _ = parts_of("SGD")
        before = plain([other.state_dict(), fresh.state_dict()]), random_states()
        first = torch.optim.Adam(net.first.parameters())
        swapped = torch.optim.Adam(list(net.parameters())[::-1])
        for wrong, code, words in [
            ({"net": other, "optimizer": fresh, "more": 1}, "not_found", "more"),
            ({"net": other, "optimizer": first}, "invalid_argument",
             "groups of [2] parameters, and was saved with [10]"),
            ({"net": other, "optimizer": swapped}, "invalid_argument", "its parameter has the shape"),
            ({"net": other.first}, "not_found", "net/weight"),
            ({"net": torch.nn.Sequential(collections.OrderedDict(first=other.first))}, "invalid_argument",
             "'net/embedding.weight'"),
        ]:
            self.refuses(code, words, manager.restore, 1, wrong)
            self.assertEqual((plain([other.state_dict(), fresh.state_dict()]), random_states()), before)

    def step(self, net, optimizer, seed=0):
        made = torch.Generator().manual_seed(seed)
        for one in net.parameters():
            one.grad = torch.randn(one.shape, generator=made)
        for one in net.unused.parameters():
            one.grad = None
        optimizer.step()

    def test_states_that_are_there_are_filled_in_place(self):
        net, optimizer, _ = parts_of("Adam")
        self.step(net, optimizer)
        manager = self.manager()
        manager.save(1, {"optimizer": optimizer})
        expected = plain(optimizer.state_dict())
        there = optimizer.state[net.first.weight]["exp_avg"].data_ptr()
        self.step(net, optimizer, seed=1)
        manager.restore(1, {"optimizer": optimizer})
        self.assertEqual(plain(optimizer.state_dict()), expected)
        self.assertEqual(optimizer.state[net.first.weight]["exp_avg"].data_ptr(), there)
        # One that has states now had none then: they are gone, as they were.
        _, fresh, _ = parts_of("Adam")
        manager.save(2, {"optimizer": fresh})
        manager.restore(2, {"optimizer": optimizer})
        self.assertEqual(len(optimizer.state), 0)

    def test_what_was_not_saved(self):
        manager = self.manager()
        manager.save(1, {"x": 1})
        net, optimizer, schedule = parts_of("Adam")
        self.step(net, optimizer)
        before = plain([net.state_dict(), optimizer.state_dict(), schedule.state_dict()]), random_states()
        state = {"net": net, "optimizer": optimizer, "schedule": schedule,
                 "random": cairn.torch.RandomStates(), "mine": cairn.torch.per_rank(1)}
        for key, one in state.items():
            self.refuses("not_found", key, manager.restore, 1, {key: one})
        manager.restore(1, state, all_may_be_missing=True)
        self.assertEqual((plain([net.state_dict(), optimizer.state_dict(), schedule.state_dict()]),
                          random_states()), before)

    def test_the_same_tensor_in_two_places(self):
        """As a learning rate that is a tensor, and the initial one."""
        net = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(0.1))
        group = optimizer.param_groups[0]
        group["initial_lr"], group["other"] = group["lr"], group["lr"].clone()
        manager = self.manager()
        for step in (1, 2):
            manager.save(step, {"optimizer": optimizer})
        self.assertNotIn("optimizer/param_groups/0/initial_lr", cairn.open(self.directory))
        again = torch.optim.Adam(torch.nn.Linear(2, 2).parameters(), lr=torch.tensor(0.5))
        manager.restore(2, {"optimizer": again})
        found = again.param_groups[0]
        self.assertEqual([found[key].item() for key in ("lr", "initial_lr", "other")],
                         [group["lr"].item()] * 3)
        self.assertEqual([found[key] is found["lr"] for key in ("initial_lr", "other")], [True, False])
        group["initial_lr"] = group["lr"].clone()
        manager.save(3, {"optimizer": optimizer})
        self.assertIn("optimizer/param_groups/0/initial_lr", cairn.open(self.directory))

    def test_a_dict_of_an_optimizer_into_the_optimizer(self):
        net, optimizer, _ = parts_of("Adam")
        self.step(net, optimizer)
        manager = self.manager()
        manager.save(1, {"optimizer": optimizer.state_dict()})
        expected = plain(optimizer.state_dict())
        for again in (parts_of("Adam")[1], optimizer):
            manager.restore(1, {"optimizer": again})
            self.assertEqual({**again.state_dict(), "state": None},
                             {**optimizer.state_dict(), "state": None})
            for number, moments in again.state_dict()["state"].items():  # in the order of their keys
                there = optimizer.state_dict()["state"][number]
                self.assertEqual(plain(dict(sorted(moments.items()))), plain(dict(sorted(there.items()))))
        self.assertEqual(plain(optimizer.state_dict())[1][1], expected[1][1])

    def test_schedules(self):
        kinds = torch.optim.lr_scheduler

        def made(which):
            net = torch.nn.Linear(2, 2)
            optimizer = torch.optim.SGD(net.parameters(), lr=1, momentum=0.9)
            return optimizer, which(optimizer)

        for number, which in enumerate([
            lambda one: kinds.LambdaLR(one, lambda step: 0.9**step), lambda one: kinds.StepLR(one, 2),
            lambda one: kinds.MultiStepLR(one, [1, 3, 3]),
            kinds.ConstantLR, kinds.LinearLR, lambda one: kinds.ExponentialLR(one, 0.9), kinds.PolynomialLR,
            lambda one: kinds.CosineAnnealingLR(one, 5),
            lambda one: kinds.CosineAnnealingWarmRestarts(one, 2),
            lambda one: kinds.CyclicLR(one, 0.01, 0.1, 2),
            lambda one: kinds.OneCycleLR(one, 0.1, total_steps=20),
            lambda one: kinds.ReduceLROnPlateau(one, patience=0),
            lambda one: kinds.ChainedScheduler([kinds.StepLR(one, 2), kinds.ExponentialLR(one, 0.9)], one),
            lambda one: kinds.SequentialLR(one, [kinds.ConstantLR(one), kinds.StepLR(one, 2)], [2]),
        ]):
            def go_on(optimizer, schedule, steps):
                for step in range(steps):
                    schedule.step(*[step] * isinstance(schedule, kinds.ReduceLROnPlateau))

            self.directory = f"{self.place}/{number}"
            with warnings.catch_warnings(), cairn.torch.Manager(self.directory) as manager:
                warnings.simplefilter("ignore")  # torch misses optimizer.step()
                optimizer, schedule = made(which)
                go_on(optimizer, schedule, 3)
                manager.save(1, {"optimizer": optimizer, "schedule": schedule})
                go_on(optimizer, schedule, 4)
                again = made(which)
                manager.restore(1, {"optimizer": again[0], "schedule": again[1]})
                go_on(*again, 4)
            self.assertEqual(plain([one.state_dict() for one in again]),
                             plain([optimizer.state_dict(), schedule.state_dict()]), number)


class Loads:
    """Whatever has a state dict."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class Values(Case):
    def test_what_a_state_dict_may_hold(self):
        manager = self.manager(max_to_keep=1)
        shared = torch.ones(2)
        held = {"none": None, "int": 1, "big": 2**100, "float": -0.0,
                "list": [1, None, "a", [torch.arange(2)]], "pair": (1, 2.5), "size": torch.Size([2, 3]),
                "no size": torch.Size([]), "tensor": torch.arange(3), "scalar": torch.tensor(5),
                "half": torch.tensor(0.5, dtype=torch.bfloat16), "empty": torch.empty(0, 2),
                "array": np.arange(3), "scalars": [np.float64(1), np.int32(2)], 7: {1: {2: []}},
                "path/s": {"a/b": torch.ones(1)}, "turned": torch.arange(6).view(2, 3).t(),
                "conj": torch.tensor([1 + 2j]).conj(), "ties": [shared, shared, torch.ones(2)], "b": b"\0",
                "text": "x", "parameter": torch.nn.Parameter(torch.ones(1))}
        for step, state in enumerate([held, {}, {"grown": [torch.ones(3)] * 1}, {"only": None},
                                      [1, torch.ones(2)], torch.ones(2), {"x": {"y": Loads({"z": 1})}}], 1):
            manager.save(step, {"o": Loads(state)})
            for before in ({}, {"none": 5, "tensor": torch.zeros(3), "list": torch.ones(1)},
                           {"tensor": torch.zeros(9), "int": None}):
                new = Loads(before if step < 7 else {"x": {"y": Loads({"z": 0})}})
                manager.restore(step, {"o": new})
                if step < 7:
                    self.assertEqual(plain(new.state), plain(state), (step, before))
            if step == 1:
                self.assertIs(new.state["ties"][0], new.state["ties"][1])
                self.assertNotEqual(new.state["ties"][0].data_ptr(), new.state["ties"][2].data_ptr())
        self.assertEqual(new.state["x"]["y"].state, {"z": 1})
        for state, words in [({"f": print}, "f"), ({"s": {1}}, "set"),
                             ({"d": [collections.defaultdict(int)]}, "dict(value)"),
                             ({"m": torch.empty(2, device="meta")}, "meta")]:
            self.refuses("invalid_argument", words, manager.save, 9, {"o": Loads(state)})
        manager.save(9, {"o": None})
        self.refuses("invalid_argument", "None when it was saved", manager.restore, 9, {"o": Loads({})})

    def test_values_into_others(self):
        manager = self.manager(max_to_keep=1)
        for step, (saved, into) in enumerate([
            (None, 1), (1, None), (1, 0.5), (0.5, 1), (2**63, 0), (0, 2**63), ((1, 2.5), (0, 0)),
            ([0.1, 0.2], []), ([], [0.1, 0.2]), ((3, 4), [0, 0]),
            (torch.ones(2), None), (None, torch.ones(2)), ([torch.ones(2), torch.tensor(0.5)], []),
            ([torch.tensor(0.5)] * 1, [torch.tensor(1.0)] * 1 + [torch.tensor(2.0)]),
            ({"a": torch.ones(2), "b": {"c": torch.ones(1)}, "n": 1}, None), ({"a": torch.ones(2)}, {}),
            ({"a": None}, {"a": torch.ones(1)}), ("text", 1), (torch.tensor(7), 3), (3, None),
            (torch.Size([1]), None), ([None, 1], [1, None]), (np.arange(2), None), (np.array(1.5), None),
            (np.float32(1), None), (collections.OrderedDict(b=torch.ones(1), a=1), None),
        ], 1):
            manager.save(step, {"x": saved})
            state = {"x": into}
            manager.restore(step, state)
            if type(saved) is collections.OrderedDict:
                saved = collections.OrderedDict(sorted(saved.items()))  # as the tensors come
            self.assertEqual(plain(state["x"]), plain(saved), (saved, into))
        manager.save(50, {"x": [torch.ones(2)] * 1})
        self.refuses("not_found", "x/1", manager.restore, 50, {"x": [torch.zeros(2), torch.zeros(2)]})
        manager.save(51, {"x": {"a": torch.ones(2), "b": torch.ones(2)}})
        self.refuses("invalid_argument", "'x/b'", manager.restore, 51, {"x": {"a": torch.zeros(2)}})

    def test_modules(self):
        class Own(torch.nn.Module):
            def __init__(self, extra):
                super().__init__()
                self.w, self.extra = torch.nn.Parameter(torch.ones(2)), extra

            def get_extra_state(self):
                return self.extra

            def set_extra_state(self, state):
                self.extra = state

        manager = self.manager(max_to_keep=1)
        for step, extra in enumerate([None, 5, torch.arange(4), torch.tensor(3),
                                      {"a": [torch.ones(1), None]}, b"bytes", [1, 2]], 1):
            manager.save(step, {"m": torch.nn.Sequential(Own(extra))})
            for before in (None, torch.arange(2), {"a": 1}):
                new = torch.nn.Sequential(Own(before))
                manager.restore(step, {"m": new})
                self.assertEqual(plain(new[0].extra), plain(extra))
        lazy = torch.nn.LazyLinear(2)
        self.refuses("invalid_argument", "lazy", manager.save, 20, {"m": lazy})
        lazy(torch.ones(3))
        manager.save(20, {"m": lazy})
        new = torch.nn.LazyLinear(2)
        manager.restore(20, {"m": new})
        self.assertTrue(torch.equal(new.weight, lazy.weight))
        # Weights that are tied on one side.
        tied = torch.nn.ModuleDict({key: torch.nn.Linear(2, 2, False) for key in "ab"})
        manager.save(21, {"m": tied})
        tied["b"].weight = tied["a"].weight
        apart = torch.nn.ModuleDict({key: torch.nn.Linear(2, 2, False) for key in "ab"})
        self.assertEqual(manager.restore(21, {"m": apart})["unused_keys"], [])

    def test_random_states(self):
        class Draws(Loads):
            def load_state_dict(self, state):
                torch.rand(3), random.gauss(0, 1), np.random.randn()

        manager = self.manager(max_to_keep=1)
        for step in (1, 2):  # with one of a pair of Gaussians left, and with none
            random.gauss(0, 1), np.random.randn()
            manager.save(step, {"random": cairn.torch.RandomStates(), "draws": Draws({"a": 1})})
            expected = torch.rand(2).tolist(), random.gauss(0, 1), np.random.randn(), random_states()
            torch.rand(5), np.random.rand(3)
            manager.restore(step, {"random": cairn.torch.RandomStates(), "draws": Draws({})})
            self.assertEqual((torch.rand(2).tolist(), random.gauss(0, 1), np.random.randn(),
                              random_states()), expected)
        generators = {"pcg": np.random.PCG64(5).state, "philox": np.random.Philox(5).state,
                      "torch": torch.Generator().manual_seed(5).get_state()}
        manager.save(9, {"g": Loads(generators)})
        new = Loads({})
        manager.restore(9, {"g": new})
        self.assertEqual(plain(new.state), plain(generators))


class Alive(Case):
    """Nothing of the application's is kept between calls. The collector sleeps, unless it is called."""

    def setUp(self):
        super().setUp()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)

    def test_after_saves_and_restores(self):
        manager = self.manager(max_to_keep=1)
        for step in range(1, 4):
            model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
            optimizer = torch.optim.Adam(model.parameters())
            held = Loads({"t": torch.ones(3), "n": None})
            state = {"model": model, "optimizer": optimizer, "held": held, "text": "x",
                     "l": [1, "a"] * (step % 3), "random": cairn.torch.RandomStates(),
                     "mine": cairn.torch.per_rank(torch.ones(2)), "tensors": [torch.ones(4)],
                     "array": np.ones(3), "slice": cairn.slice(np.ones(2), (2,), (0,))}
            if step % 2:
                del state["slice"]
            gone = [weakref.ref(one) for one in (model, optimizer, held, *model.parameters(),
                                                 held.state["t"], state["mine"].value, state["tensors"][0])]
            manager.save(2 * step, state)
            manager.save_async(2 * step + 1, state)
            manager.wait()
            manager.restore(2 * step + 1, state)
            with self.assertRaises(cairn.Error):
                manager.restore(2 * step + 1, {**state, "more": 1})
            gone.append(weakref.ref(held.state["t"]))
            del model, optimizer, held, state
            gc.collect()  # modules and optimizers are circles
            self.assertEqual([one() for one in gone], [None] * len(gone), step)

    def test_a_model_that_is_given_up_while_the_manager_lives(self):
        manager = self.manager()
        state = {"w": torch.ones(3), "text": "x", "none": None, "n": 1,
                 "conj": torch.ones(2, dtype=torch.complex64).conj()}
        gone = [weakref.ref(state["w"]), weakref.ref(state["conj"])]
        manager.save(1, state)
        state["text"] = "longer"
        manager.save(2, state)
        del state
        self.assertEqual([one() for one in gone], [None, None])

    def test_memory(self):
        manager = self.manager(max_to_keep=1)

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # MiB

        def state(number):
            return {"w": torch.ones(4 << 20), "text": "x", "random": cairn.torch.RandomStates(),
                    "mine": cairn.torch.per_rank(torch.ones(4 << 18)),
                    "form": [None] * number}

        for number in range(14):
            if number == 3:
                before = peak()
            manager.save(number, state(number))  # of another form each time
            manager.restore(number, state(0))
        self.assertLess(peak() - before, 32)  # two of 16 MiB

    def test_a_manager_whose_hook_belongs_to_its_owner(self):
        class Trainer:
            def __init__(self, directory):
                self.model = torch.nn.Linear(2, 2)
                self.manager = cairn.torch.Manager(directory, hooks={"before_save": [self.before]})

            def before(self, step):
                self.step = step

        trainer = Trainer(self.directory)
        trainer.manager.save(1, {"model": trainer.model, "text": "x"})
        self.assertEqual(trainer.step, 1)
        gone = weakref.ref(trainer), weakref.ref(trainer.model)
        del trainer
        gc.collect()
        self.assertEqual([one() for one in gone], [None, None])
        self.manager().save(2, {"x": 1})


class Causes(Case):
    def test_of_state_dicts(self):
        class Fails(Loads):
            def state_dict(self):
                return self.fail() if self.state == "state" else {"a": 1}

            def load_state_dict(self, state):
                self.fail()

            def fail(self):
                raise KeyError("mine")

        manager = self.manager()
        manager.save(1, {"x": Fails("load")})
        for call in (lambda: manager.save(2, {"x": Fails("state")}),
                     lambda: manager.restore(1, {"x": Fails("state")}),
                     lambda: manager.restore(1, {"x": Fails("load")})):
            error = self.refuses("application", "mine", call)
            self.assertIsInstance(error.__cause__, KeyError)
            self.assertEqual(traceback.extract_tb(error.__cause__.__traceback__)[-1].name, "fail")


def unlike_forms(directory):
    """Of each rank its own, as one that has drawn a Gaussian has beside one that has not."""
    rank = dist.get_rank()
    with cairn.torch.Manager(directory) as manager:
        random.seed(rank)
        if rank == 1:
            random.gauss(0, 1)
        mine = [None, 1, "a"][: rank + 1]
        state = {"random": cairn.torch.RandomStates(), "mine": cairn.torch.per_rank(mine), "all": [1, None]}
        manager.save(1, state)
        expected = random.gauss(0, 1)
        random.seed(9)
        new = {"random": cairn.torch.RandomStates(), "mine": cairn.torch.per_rank(None), "all": []}
        manager.restore(1, new)
        assert (random.gauss(0, 1), new["mine"].value, new["all"]) == (expected, mine, [1, None]), new
        # What is to be the same on all ranks, and is not.
        for wrong in ({"l": [1, None] if rank else [None, 1]}, {"l": None if rank else 1},
                      {"l": [1] * (rank + 1)}, {"o": Loads({"a": None if rank else 1})}):
            try:
                manager.save(2, wrong)
                raise AssertionError(f"{wrong} was saved")
            except cairn.Error as error:
                assert error.code in ("disagreement", "invalid_argument"), error
        # Keys that only one rank has, and what one rank alone raises.
        both = {"d": {f"{rank}": torch.ones(2), "n": 1}, "e": {} if rank else {"t": torch.ones(1)}}
        manager.save(3, both)
        manager.restore(3, both)
        manager.restore(3, {"d": both["d"]})

        class Fails(Loads):
            def load_state_dict(self, state):
                if rank == 1:
                    raise KeyError("mine")

        manager.save(4, {"x": Fails({"a": 1})})
        try:
            manager.restore(4, {"x": Fails({})})
            raise AssertionError("it was restored")
        except cairn.Error as error:
            assert error.rank == 1 and isinstance(error.__cause__, KeyError) == (rank == 1), error.__cause__


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, 7), torch.nn.Linear(7, 3)
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, given):
        return self.last(self.first(given).relu())


class Own(torch.optim.Optimizer):
    """Its states have other shapes than its parameters."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for one in self.param_groups[0]["params"]:
            if one.grad is not None:
                state = self.state[one]
                if not state:
                    state["seen"] = distribute_tensor(torch.zeros(3), one.device_mesh, [Replicate()])
                state["seen"] += 1
                one.add_(one.grad, alpha=-0.01 * state["seen"].to_local().sum().item())


def sharded():
    """Models with an optimizer whose states are as the parameters, with one that makes them at once,
    and with one that has others."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = {}
    for name, kind in {"AdamW": torch.optim.AdamW, "Adagrad": torch.optim.Adagrad, "Own": Own}.items():
        torch.manual_seed(3)
        net = Small()
        fully_shard(net, mesh=mesh)
        net.set_force_sum_reduction_for_comms(True)
        state[name] = {"net": net, "optimizer": kind(net.parameters(), lr=0.01)}
    return state


def steps(state, first, number):
    losses = {name: [] for name in state}
    for name, one in state.items():
        for step in range(first, first + number):
            torch.manual_seed(100 * step + dist.get_rank())
            one["optimizer"].zero_grad()
            loss = one["net"](torch.randn(4, 5)).square().mean()
            loss.backward()
            one["optimizer"].step()
            losses[name].append(loss.item())
    return losses


def known(state):
    return {name: plain([part.state_dict() for part in one.values()]) for name, one in state.items()}


def placements(state):
    found = {}
    for name, one in state.items():
        for number, moments in one["optimizer"].state_dict()["state"].items():
            for key, value in moments.items():
                found[name, number, key] = str(getattr(value, "placements", None))
    return found


def save_sharded(directory):
    state = sharded()
    with cairn.torch.Manager(directory) as manager:
        manager.save(0, state)
        steps(state, 0, 2)
        manager.save(2, state)
    with open(f"{directory}-{dist.get_rank()}", "wb") as file:
        pickle.dump([known(state), placements(state), steps(state, 2, 2)], file)


def load_sharded(directory):
    with open(f"{directory}-{min(dist.get_rank(), 1)}", "rb") as file:
        values, where, losses = pickle.load(file)
    with cairn.torch.Manager(directory) as manager:
        for used in (0, 1):
            state = sharded()
            steps(state, 9, used)
            manager.restore(2, state)
            assert known(state) == values, used
            if dist.get_world_size() == 2:
                assert placements(state) == where, (where, placements(state))
                assert steps(state, 2, 2) == losses, used
        manager.restore(0, state)
    fresh = sharded()
    for name, one in fresh.items():
        assert plain(state[name]["optimizer"].state_dict()) == plain(one["optimizer"].state_dict()), name


class Ranks(Case):
    def test_forms_that_are_not_the_same(self):
        job(2, unlike_forms, self.directory)

    def test_sharded_optimizers(self):
        job(2, save_sharded, self.directory)
        for ranks in (2, 3):
            job(ranks, load_sharded, self.directory)


if __name__ == "__main__":
    unittest.main()
