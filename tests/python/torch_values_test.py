"""With torch, the saved values decide what is restored, whatever the state has in their place."""

import collections
import dataclasses
import enum
import gc
import random
import resource
import traceback
import unittest
import weakref

from torch_jobs import job  # first: it sets what torch reads when it is imported
from case import stub_errors
from torch_cases import Case, Loads, plain, random_states

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import cairn
import cairn.torch

torch.set_num_threads(1)


Pair = collections.namedtuple("Pair", "first second")


class Phase(enum.Enum):
    TRAIN = "train"
    TEST = "test"


@dataclasses.dataclass
class Run:
    w: object = None
    more: object = None


@dataclasses.dataclass
class Stateful:
    n: int

    def state_dict(self):
        return {"n": self.n + 1}

    def load_state_dict(self, state):
        self.n = state["n"]


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
                "text": "x", "dtype": torch.float16, "devices": {torch.device("cpu"), torch.device("cuda", 1)},
                "function": len, "parameter": torch.nn.Parameter(torch.ones(1))}
        for step, state in enumerate([held, {}, {"grown": [torch.ones(3)] * 1}, {"only": None},
                                      [1, torch.ones(2)], torch.ones(2), {"x": {"y": Loads({"z": 1})}}], 1):
            manager.save(step, {"o": Loads(state)})
            for before in ({"function": len}, {"function": len, "none": 5, "tensor": torch.zeros(3), "list": torch.ones(1)},
                           {"function": len, "tensor": torch.zeros(9), "int": None}):
                new = Loads(before if step < 7 else {"x": {"y": Loads({"z": 0})}})
                manager.restore(step, {"o": new})
                if step < 7:
                    self.assertEqual(plain(new.state), plain(state), (step, before))
            if step == 1:
                self.assertIs(new.state["ties"][0], new.state["ties"][1])
                self.assertNotEqual(new.state["ties"][0].data_ptr(), new.state["ties"][2].data_ptr())
        self.assertEqual(new.state["x"]["y"].state, {"z": 1})
        for state, words in [({"f": lambda: 1}, "function"), ({"s": {torch.ones(1)}}, "set"),
                             ({"d": [collections.defaultdict(int)]}, "dict(value)"),
                             ({"m": torch.empty(2, device="meta")}, "meta")]:
            self.refuses("invalid_argument", words, manager.save, 9, {"o": Loads(state)})
        manager.save(8, {"o": Loads({"f": len})})
        for other in ({"f": print}, {"f": None}, {}):
            self.refuses("invalid_argument", "builtins.len", manager.restore, 8, {"o": Loads(other)})
        self.refuses("invalid_argument", "function", manager.save, 9, {"f": len})
        manager.save(9, {"o": None})
        self.refuses("invalid_argument", "None when it was saved", manager.restore, 9, {"o": Loads({})})

    def test_classes_of_the_applications_own(self):
        manager = self.manager(max_to_keep=1)
        state = {"epoch": Phase.TRAIN, "run": Run(torch.arange(3.0), {Phase.TEST: Run()}),
                 "pairs": [Pair(torch.ones(2), 1)], "top": {(0, 1): torch.ones(1), 1.5: torch.zeros(2)}}
        step = 0
        for phase in (Phase.TRAIN, Phase.TRAIN, Phase.TEST):
            state["epoch"] = phase
            for saved in (state, {"o": Loads(state)}):
                step += 1
                manager.save(step, saved)
                if saved is state:
                    new = {"epoch": Phase.TEST, "run": Run(torch.zeros(3), {}), "pairs": [], "top": None}
                    filled = new["run"].w
                    manager.restore(step, new, types=[Pair])
                    self.assertIs(new["run"].w, filled)
                else:
                    loads = Loads({"epoch": Phase.TEST, "run": Run()})
                    manager.restore(step, {"o": loads}, types=[Pair])
                    new = loads.state
                self.assertEqual({key: repr(one) for key, one in new.items()},
                                 {key: repr(one) for key, one in state.items()})
        # An object with state_dict() restores itself.
        manager.save(50, {"s": Stateful(7)})
        stateful = Stateful(0)
        manager.restore(50, {"s": stateful})
        self.assertEqual(stateful.n, 8)

    def test_the_stub_says_what_is_there(self):
        self.assertEqual(stub_errors(cairn.torch), [])

    def test_dtypes_that_a_checkpoint_lacks(self):
        raw = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (4, 24), np.uint8))
        saved = {name: (raw & 3 if name == "int4" else raw).view(getattr(torch, name))
                 for name in ("complex32", "float8_e8m0fnu", "float4_e2m1fn_x2", "int4", "uint64")
                 if hasattr(torch, name)}
        manager, loads = self.manager(), Loads({})
        for step in (1, 2):  # the second one of the same form
            manager.save(step, {"a": saved, "t": {name: one.t() for name, one in saved.items()},
                                "o": Loads({"x": saved, "conj": saved["complex32"].conj()})})
        there = {name: torch.zeros_like(raw).view(one.dtype) for name, one in saved.items()}
        made = {"a": None, "t": None, "o": loads}
        manager.restore(2, made)
        manager.restore(2, {"a": dict(there), "t": {
            name: torch.zeros_like(raw).view(one.dtype).t() for name, one in saved.items()}})

        def bits(tensor):
            wide = tensor.unsqueeze(-1) if tensor.element_size() > 1 else tensor
            return tensor.dtype, tensor.shape, wide.view(torch.uint8).contiguous().numpy().tobytes()

        for name, one in saved.items():
            for got in (made["a"][name], loads.state["x"][name], there[name]):
                self.assertEqual(bits(got), bits(one), name)
            self.assertEqual(bits(made["t"][name]), bits(one.t()), name)
        self.assertEqual(bits(loads.state["conj"]), bits(saved["complex32"].conj().resolve_conj()))
        self.refuses("invalid_argument", "uint8 here", manager.restore, 2,
                     {"a/float8_e8m0fnu": torch.zeros_like(raw)})
        self.refuses("invalid_argument", "complex64", manager.restore, 2,
                     {"a/complex32": torch.zeros(4, 6, dtype=torch.complex64)})
        self.refuses("invalid_argument", "conjugate", manager.restore, 2,
                     {"a/complex32": saved["complex32"].conj()})
        lacking = {name: saved[name] for name in ("complex32", "float8_e8m0fnu") if name in saved}
        dcp.save(lacking, checkpoint_id="1", no_dist=True,
                 storage_writer=cairn.torch.StorageWriter(self.directory + "-dcp"))
        read = {name: torch.zeros_like(one) for name, one in lacking.items()}
        dcp.load(read, no_dist=True, storage_reader=cairn.torch.StorageReader(self.directory + "-dcp/ckpt-1"))
        self.assertEqual({name: bits(one) for name, one in read.items()},
                         {name: bits(one) for name, one in lacking.items()})

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
        extra = torch.arange(3)
        saved, new = Own({"a": extra, "b": extra}), Own(None)
        manager.save(15, {"m": saved})
        manager.restore(15, {"m": new})
        self.assertEqual(plain(new.extra), plain(saved.extra))
        saved.extra = saved.w.detach()
        manager.save(16, {"m": saved})
        new = Own(None)
        manager.restore(16, {"m": new})
        self.assertEqual(plain(new.extra), plain(saved.extra))
        lazy = torch.nn.LazyLinear(2)
        self.refuses("invalid_argument", "lazy", manager.save, 20, {"m": lazy})
        lazy(torch.ones(3))
        manager.save(20, {"m": lazy})
        new = torch.nn.LazyLinear(2)
        manager.restore(20, {"m": new})
        self.assertTrue(torch.equal(new.weight, lazy.weight))
        # Weights that are tied on one side only.
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
        # Values that must be the same on all ranks, and are not.
        for wrong in ({"l": [1, None] if rank else [None, 1]}, {"l": None if rank else 1},
                      {"l": [1] * (rank + 1)}, {"o": Loads({"a": None if rank else 1})}):
            try:
                manager.save(2, wrong)
                raise AssertionError(f"{wrong} was saved")
            except cairn.Error as error:
                assert error.code in ("disagreement", "invalid_argument"), error
        # Keys that only one rank has, and an exception on one rank.
        both = {"d": {f"{rank}": torch.ones(2), "n": 1}, "e": {} if rank else {"t": torch.ones(1)}}
        manager.save(3, both)
        manager.restore(3, both)
        manager.restore(3, {"d": both["d"]})

        class Fails(Loads):
            def load_state_dict(self, state):
                if rank == 1:
                    raise KeyError("mine")

        # Tensors that occur twice in a dict, differently on each rank.
        t, u = torch.full((2,), float(rank)), torch.ones(3)
        manager.save(5, {"c": {f"a{rank}": t, f"b{rank}": t, "n": {f"x{rank}": u if rank else t}, "u": u,
                               "v": {"v": u}}})
        new = {"c": None}
        manager.restore(5, new)
        assert sorted(new["c"]) == ["a0", "a1", "b0", "b1", "n", "u", "v"], new
        for one in range(2):
            assert new["c"][f"a{one}"] is new["c"][f"b{one}"] and new["c"][f"a{one}"].tolist() == [one] * 2, new
        assert new["c"]["n"]["x0"] is new["c"]["a0"] and new["c"]["u"] is new["c"]["v"]["v"], new
        assert new["c"]["n"]["x1"].tolist() == new["c"]["u"].tolist() == [1, 1, 1], new

        manager.save(4, {"x": Fails({"a": 1})})
        try:
            manager.restore(4, {"x": Fails({})})
            raise AssertionError("it was restored")
        except cairn.Error as error:
            assert error.rank == 1 and isinstance(error.__cause__, KeyError) == (rank == 1), error.__cause__


class Ranks(Case):
    def test_forms_that_are_not_the_same(self):
        job(2, unlike_forms, self.directory)


if __name__ == "__main__":
    unittest.main()
