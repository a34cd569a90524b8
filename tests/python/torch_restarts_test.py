"""Restores into something else than was saved: optimizers of another class, no module where one
was, weights that are not tied any more; and the words of the errors."""

import argparse
import collections
import fractions
import pathlib
import random
import types
import unittest
import warnings

from torch_cases import Case, plain  # first: it sets what torch reads when it is imported
from torch_models import Tied

import numpy as np
import torch

import cairn
import cairn.torch
from says import says

torch.set_num_threads(1)
warnings.simplefilter("ignore")  # torch's own
OPTIMIZERS = [one for one in vars(torch.optim).values()
              if isinstance(one, type) and issubclass(one, torch.optim.Optimizer) and one is not torch.optim.Optimizer]


def pair(kind):
    parameter = torch.nn.Parameter(torch.ones(3, 3))
    return parameter, kind([parameter], lr=0.1)


def step(parameter, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        if isinstance(optimizer, torch.optim.SparseAdam):
            parameter.grad = parameter.grad.to_sparse()
        return loss

    optimizer.step(closure)


class Lion(torch.optim.Optimizer):
    """An optimizer class of the application's own."""

    def __init__(self, parameters, lr=0.1, sharpness=2):
        super().__init__(parameters, {"lr": lr, "sharpness": sharpness})

    def step(self, closure=None):
        return [group["sharpness"] for group in self.param_groups]


def untied():
    net = Tied()
    net.head.weight = torch.nn.Parameter(torch.zeros(7, 5))
    return net


class Classes(Case):
    def test_all_pairs_of_optimizers(self):
        """Either the restore fails and touches nothing, or the next step succeeds."""
        accepted = set()
        for steps in (0, 1):
            for saved in OPTIMIZERS:
                self.directory += "-"
                manager, (parameter, optimizer) = self.manager(), pair(saved)
                for _ in range(steps):
                    step(parameter, optimizer)
                manager.save(1, {"p": parameter, "o": optimizer})
                manager.save(2, {"o": cairn.torch.by_name(optimizer, torch.nn.ParameterDict({"p": parameter}))})
                for kind in [*OPTIMIZERS, Lion]:
                    for number in (1, 2):
                        there, new = pair(kind)
                        state = {"p": there, "o": new} if number == 1 else {
                            "o": cairn.torch.by_name(new, torch.nn.ParameterDict({"p": there}))}
                        before = plain([there, new.state_dict()])
                        with self.subTest(saved=saved, kind=kind, number=number, steps=steps):
                            try:
                                manager.restore(number, state)
                            except cairn.Error as error:
                                self.assertEqual(error.code, "invalid_argument", error)
                                for one in (saved, kind):
                                    self.assertIn(f"{one.__module__}.{one.__qualname__}", str(error))
                                self.assertEqual(plain([there, new.state_dict()]), before)
                                continue
                            step(there, new)
                            accepted.add((saved, kind, steps))
        for kind in OPTIMIZERS:
            self.assertIn((kind, kind, 1), accepted)
        self.assertIn((torch.optim.AdamW, torch.optim.RAdam, 1), accepted)
        self.assertNotIn((torch.optim.Adam, torch.optim.Adamax, 1), accepted)  # whose options are a part of its own

    def test_options_that_are_missing_are_named(self):
        manager = self.manager()
        manager.save(1, {"o": pair(torch.optim.AdamW)[1]})
        error = self.refuses("invalid_argument", "'dampening', 'momentum', 'nesterov'", manager.restore, 1,
                             {"o": pair(torch.optim.SGD)[1]}, strict=False)
        self.assertEqual(error.tensor, "o")
        # Of the same class, saved by a version of torch that had fewer options.
        parameter, optimizer = pair(torch.optim.Adam)
        step(parameter, optimizer)
        for group in optimizer.param_groups:
            del group["maximize"], group["decoupled_weight_decay"]
        manager.save(2, {"o": optimizer})
        there, new = pair(torch.optim.Adam)
        manager.restore(2, {"o": new})
        self.assertEqual(new.param_groups[0]["maximize"], False)
        step(there, new)

    def test_by_name_and_by_position(self):
        manager, net = self.manager(), torch.nn.Linear(2, 3)
        optimizer = torch.optim.AdamW(net.parameters())
        by_name = cairn.torch.by_name(optimizer, net)
        for number, steps in ((1, 0), (3, 1)):
            if steps:
                net(torch.ones(2)).sum().backward()
                optimizer.step()
            manager.save(number, {"o": optimizer})
            manager.save(number + 1, {"o": by_name})
            for options in ({}, {"strict": False}):
                error = self.refuses("invalid_argument", "saved by the positions of its parameters, and is restored by "
                                     "their names", manager.restore, number, {"o": by_name}, **options)
                self.assertIn(says("the optimizer itself"), error.way_out)
                error = self.refuses("invalid_argument", "saved by the names of its parameters, and is restored by their "
                                     "positions", manager.restore, number + 1, {"o": optimizer}, **options)
                self.assertIn("cairn.torch.by_name(", error.way_out)
            manager.restore(number, {"o": optimizer})
            manager.restore(number + 1, {"o": by_name})


class Nothing(Case):
    def test_a_module_into_nothing(self):
        manager = self.manager()
        net = torch.nn.Sequential(torch.nn.BatchNorm1d(3), Tied())
        manager.save(1, {"model": net, "more": {"inner": net[1], "n": 3}})
        wanted = {name: plain(one) for name, one in net.state_dict().items()}
        for there in (lambda: None, dict, list, lambda: 5):
            for options in ({}, {"unused": "silent"}):
                state = {"model": there(), "more": None}
                was = state["model"]
                manager.restore(1, state, **options)
                self.assertEqual({name: plain(one) for name, one in state["model"].items()}, wanted)
                self.assertIs(state["model"] is was, there is dict)
                self.assertIs(state["model"]["1.words.weight"], state["model"]["1.head.weight"])
                self.assertEqual(state["more"]["n"], 3)
                self.assertIs(state["more"]["inner"]["head.weight"], state["model"]["1.head.weight"])
        again = torch.nn.Sequential(torch.nn.BatchNorm1d(3), Tied())
        again.load_state_dict(state["model"])
        # A tensor that was tied to one that the state lacks.
        self.refuses("not_found", "'more/inner/head.weight' was tied to 'model/1.words.weight'", manager.restore, 1,
                     {"more": None})
        with cairn.CheckpointManager(self.directory, read_only=True) as of_arrays:
            state = {"model": None}
            of_arrays.restore(1, state)
            self.assertEqual(set(state["model"]), set(wanted))

    def test_lists_of_modules_and_what_is_each_ranks(self):
        manager, net = self.manager(), torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net(torch.ones(2)).sum().backward()
        optimizer.step()
        manager.save(1, {"all": [net, 3], "random": cairn.torch.RandomStates(), "mine": cairn.torch.per_rank([1, None]),
                         "o": cairn.torch.by_name(optimizer, net)})
        state = {"all": [], "random": None, "mine": None, "o": {}}
        manager.restore(1, state)
        self.assertEqual((sorted(state["all"][0]), state["all"][1]), (["bias", "weight"], 3))
        self.assertEqual(state["mine"].value, [1, None])
        expected = torch.rand(1), np.random.rand(), random.random()
        cairn.torch.RandomStates().load_state_dict(state["random"])
        self.assertEqual((torch.rand(1), np.random.rand(), random.random()), expected)
        self.assertEqual(sorted(state["o"]["state"]["weight"]["0"]), ["momentum_buffer"])
        self.refuses("invalid_argument", "a list or a dict", manager.restore, 1, {"all": None})


class Texts(Case):
    def test_weights_that_were_tied(self):
        manager, tied, loose = self.manager(), Tied(), untied()
        of_tied, of_loose = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (tied, loose))
        manager.save(1, {"model": tied, "o": of_tied})
        name = "{'model/head.weight': 'model/words.weight'}"
        error = self.refuses("not_found", "'model/head.weight' was tied to 'model/words.weight' when it was saved",
                             manager.restore, 1, {"model": loose}, unused="silent")
        self.assertIn(f"rename={name}", error.way_out)
        self.assertIn(error.way_out, str(error))
        error = self.refuses("not_found", "was tied", manager.restore, 1, {"net": loose}, unused="silent",
                             rename={"net/*": "model/*"})
        self.assertIn("rename={'net/head.weight': 'model/words.weight'}", error.way_out)
        for options in ({}, {"rename": {"model/head.weight": "model/words.weight"}}):
            error = self.refuses("invalid_argument", "'model/head.weight' was tied to 'model/words.weight'",
                                 manager.restore, 1, {"model": loose, "o": of_loose}, **options)
            self.assertIn(f"rename={name}", error.way_out)
        manager.restore(1, {"model": loose}, unused="silent", rename={"model/head.weight": "model/words.weight"})
        self.assertEqual(plain(loose.head.weight), plain(tied.words.weight))
        manager.restore(1, {"model": Tied(), "o": of_tied})
        # The other way round.
        manager.save(2, {"model": loose, "o": of_loose})
        self.refuses("invalid_argument", "'model/head.weight' is tied to 'model/words.weight', and was not",
                     manager.restore, 2, {"model": tied, "o": of_tied})
        manager.restore(2, {"model": tied}, unused="silent")  # for both are equal

    def test_stars_at_other_places(self):
        manager, net = self.manager(), torch.nn.Linear(2, 2)
        manager.save(1, {"model": net})
        for rename in ({"model/*.weight": "model/*.w"}, {"model/*": "model/*/x"}, {"*/x": "y"}, {"model/**": "a/*"},
                       {"model/weight": "model/*"}):
            error = self.refuses("not_found" if "model/weight" in rename else "invalid_argument", "'", manager.restore,
                                 1, {"model": net}, rename=rename, unused="silent")
            self.assertIn(says("is at the end of both names"), error.way_out)
        manager.save(2, {"a*b": 1})  # which a key may have
        state = {"c*d": 0}
        manager.restore(2, state, rename={"c*d": "a*b"})
        self.assertEqual(state, {"c*d": 1})

    def test_what_is_refused_is_named_with_a_way_out(self):
        for manager in (self.manager(), cairn.CheckpointManager(f"{self.directory}-plain")):
            for value, name, way_out in (
                    (torch.Generator(), "a torch.Generator", "get_state()"),
                    (np.random.default_rng(1), "a numpy.random.Generator", "bit_generator.state"),
                    (np.random.PCG64(1), "a numpy.random.PCG64", "value.state"),
                    (np.random.RandomState(1), "a numpy.random.RandomState", "get_state()"),
                    (random.Random(1), "a random.Random", "getstate()"),
                    (argparse.Namespace(a=1), "an argparse.Namespace", "vars(value)"),
                    (types.SimpleNamespace(a=1), "a types.SimpleNamespace", "vars(value)"),
                    (collections.deque([1]), "a collections.deque", "list(value)"),
                    (range(2), "a range", "list(value)"),
                    (bytearray(b"a"), "a bytearray", "bytes(value)"),
                    (pathlib.Path("a"), "a pathlib.PosixPath", "str(value)"),
                    (fractions.Fraction(1, 2), "a fractions.Fraction", "str(value)"),
                    (object(), "an object", "a number, a text")):
                for state in ({"x": value}, {"x": [value]}, {"x": {"y": value, "n": 1}}):
                    error = self.refuses("invalid_argument", f"it is {name})", manager.save, 1, state)
                    self.assertIn(way_out, error.way_out)
            manager.close()

    def test_generators_go_on_by_their_states(self):
        generators = torch.Generator().manual_seed(1), np.random.default_rng(1), random.Random(1)
        states = [generators[0].get_state(), generators[1].bit_generator.state, generators[2].getstate()]
        manager, state = self.manager(), {"g": None}
        manager.save(1, {"g": states})
        expected = torch.rand(1, generator=generators[0]), generators[1].random(), generators[2].random()
        manager.restore(1, state)
        new = torch.Generator(), np.random.default_rng(2), random.Random(2)
        new[0].set_state(state["g"][0])
        new[1].bit_generator.state = state["g"][1]
        new[2].setstate(state["g"][2])
        self.assertEqual((torch.rand(1, generator=new[0]), new[1].random(), new[2].random()), expected)

    def test_two_values_of_one_key(self):
        manager = self.manager()
        for state in ({"a/b": 1, "a": {"b": 2}}, {"a": {"b": torch.ones(2)}, "a/b": torch.ones(2)}, {1: 2, "1": 3}):
            error = self.refuses("invalid_argument", "in the state already", manager.save, 1, state)
            self.assertIn("a '/' in a key", error.way_out)
            self.assertNotIn("patches", str(error))


if __name__ == "__main__":
    unittest.main()
