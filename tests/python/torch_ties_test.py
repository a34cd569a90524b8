"""Tensors that occur twice in a state dict are stored once, and restored as one."""

import collections
import unittest
import unittest.mock

import torch_jobs  # noqa: F401  # first: it sets what torch reads when it is imported
from case import BUILT
from torch_cases import Case, plain

import torch

import cairn
import cairn.torch

torch.set_num_threads(1)


def sorted_as_texts(value):
    """Like plain(), but dicts are in the order of their keys' texts, like the keys of tensors."""
    if isinstance(value, dict):
        return type(value).__name__, sorted((repr(key), sorted_as_texts(one)) for key, one in value.items())
    return plain(value)


def at(value, path):
    for word in path.split("/") if isinstance(path, str) else [path]:
        value = value[word]
    return value


class Ties(Case):
    def test_tensors_that_stand_twice_in_a_dict(self):
        t, u = torch.arange(3.0), torch.tensor(2.5)
        lacking = torch.full((2, 1), 1.5).view(torch.complex32)
        moments = {"step": u, "exp_avg": t, "max": t}
        states = [
            {"a": t, "b": t}, {"a": {"x": t, "n": 1}, "b": {"x": t, "y": {"z": t}}, "c": torch.arange(3.0)},
            collections.OrderedDict(a=t, b=collections.OrderedDict(x=t, y=t + 1)),
            {7: t, 10: t, 9: u}, {"a": u, "b": u},
            {"a/b": t, "c": t}, {1.5: t, (0, 1): {"x": t}, "u": u}, {"a": t, "q": {1.5: t, None: t}},
            {"state": {0: moments, 1: {**moments, "step": u.clone()}}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]},
            {"a": lacking, "b": {"c": lacking}}, {"a": t, "b": t.view(torch.int32), "c": t[1:], "d": t},
            {"a": t, "q": collections.OrderedDict(x=t), "i": {3: t}},
        ]
        given = {f"{number}": state for number, state in enumerate(states)}
        for options in ({}, {"store": {"object_graph": True}}, {"store": {"format": "hdf5"}}):
            if options.get("store", {}).get("format", "bundle") not in BUILT:
                continue
            self.directory += "-"
            manager = self.manager(**options)
            for step in (1, 2):  # the second one of the same form
                manager.save(step, given)
            for into in (lambda: None, dict, lambda: 5):
                new = {key: into() for key in given}
                manager.restore(2, new)
                for key, state in given.items():
                    kind = dict if into is dict else type(state)  # it is put into the dict that is there
                    self.assertIs(type(new[key]), kind)
                    self.assertEqual(sorted_as_texts(new[key])[1], sorted_as_texts(state)[1], (options, key))
        for key, paths in [("0", "ab"), ("1", ["a/x", "b/x", "b/y/z"]), ("2", ["a", "b/x"]), ("3", [7, 10]),
                           ("4", "ab"), ("5", None), ("9", ["a", "b/c"]), ("10", "ad")]:
            got = {id(at(new[key], path)) for path in paths or ()} or {*map(id, new[key].values())}
            self.assertEqual(len(got), 1, key)
        self.assertIsNot(new["1"]["a"]["x"], new["1"]["c"])
        self.assertIs(new["6"][1.5], new["6"][0, 1]["x"])
        self.assertIs(new["8"]["state"][0]["max"], new["8"]["state"][1]["exp_avg"])

    def test_tensors_that_stand_twice_into_some_that_are_there(self):
        manager, t = self.manager(max_to_keep=1), torch.ones(3)
        manager.save(1, {"c": {"a": t, "b": t, "d": {"x": t}}, "v": t, "w": t})
        self.assertEqual(sorted(cairn.open(self.directory)), ["c/a", "v"])  # once in each
        for other in (lambda: None, lambda: 5, dict, list):
            there = torch.zeros(3)
            state = {"w": other(), "c": {"b": other(), "d": other(), "a": there}, "v": None}
            below = state["c"]["d"]
            manager.restore(1, state)
            self.assertIs(state["c"]["b"], there)
            self.assertIs(state["c"]["d"]["x"], there)
            self.assertEqual(state["c"]["d"] is below, other is dict)
            self.assertIs(state["w"], state["v"])
            self.assertEqual((plain(there), plain(state["v"])), (plain(t), plain(t)))
        one, two = torch.zeros(3), torch.zeros(3)
        manager.restore(1, {"c": {"a": one, "b": one, "d": {"x": one}}, "v": two, "w": two})
        self.assertEqual((plain(one), plain(two)), (plain(t), plain(t)))
        of_kinds = {"a": t, "b": collections.OrderedDict(x=t), "c": {6: t}}
        manager.save(3, {"c": of_kinds})
        state = {"c": None}
        manager.restore(3, state)
        self.assertEqual(sorted_as_texts(state["c"])[1], sorted_as_texts(of_kinds)[1])
        manager.save(1, {"c": {"a": t, "b": t, "d": {"x": t}}, "v": t, "w": t})
        few = {"c": {"a": torch.zeros(3)}}  # as a model that has the weight under one name
        manager.restore(1, few)
        self.assertNotIn("b", few["c"])
        self.refuses("not_found", "'c/b'", manager.restore, 1,
                     {"c": {"a": torch.zeros(3), "b": torch.zeros(3), "d": None}})
        self.refuses("not_found", "'w'", manager.restore, 1, {"w": None})
        state = {"w": None}
        manager.restore(1, state, rename={"w": "v"})
        self.assertEqual(plain(state["w"]), plain(t))
        with cairn.CheckpointManager(self.directory, read_only=True) as of_arrays:
            state = {"c": None}
            of_arrays.restore(1, state)
            self.assertIs(state["c"]["a"], state["c"]["d"]["x"])
        # A module and a tensor beside it share memory; a described tensor, or one of each rank, is
        # stored separately.
        model, twice = torch.nn.Linear(2, 2), cairn.torch.per_rank(t)
        manager.save(2, {"m": model, "w": model.weight, "d": {"w": model.weight}, "r": twice, "s": twice,
                         "t": cairn.described(t, units="m"), "u": cairn.described(t, units="s")})
        state = {"m": torch.nn.Linear(2, 2), "w": None, "d": None, "t": None, "u": None,
                 "r": cairn.torch.per_rank(None), "s": cairn.torch.per_rank(None)}
        manager.restore(2, state)
        self.assertEqual(state["w"].data_ptr(), state["m"].weight.data_ptr())
        self.assertEqual(plain([state["w"], state["d"]["w"]]), plain([model.weight.detach()] * 2))
        self.assertEqual(plain([state["t"], state["u"], state["r"].value, state["s"].value]), plain([t] * 4))
        manager.save(4, {"l": [model, t, t]})
        state = {"l": [torch.nn.Linear(2, 2), None, None]}
        manager.restore(4, state)
        self.assertIs(state["l"][1], state["l"][2])
        self.assertEqual(plain(state["l"][1]), plain(t))

    def test_without_the_note_of_what_stands_twice(self):
        manager, t = self.manager(), torch.ones(3)

        class Untold(cairn.torch.manager.TorchSaving):
            _ties = property(lambda self: {}, lambda self, ties: None)

        with unittest.mock.patch.object(cairn.torch.manager, "TorchSaving", Untold):
            manager.save(1, {"c": {"a": t, "b": t}})
        one = torch.zeros(3)
        manager.restore(1, {"c": {"a": one, "b": one}})
        self.assertEqual(plain(one), plain(t))
        self.refuses("not_found", "'c/b'", manager.restore, 1, {"c": {"a": one, "b": None}})


if __name__ == "__main__":
    unittest.main()
