"""Repeated saves: a Manager reuses its binding if the state has the form of the save before, and
notices every change."""

import copy
import glob
import os
import tempfile
import threading
import unittest
import weakref

from torch_jobs import job  # first: it sets what torch reads when it is imported

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard

import cairn
import cairn.torch
from says import says
from torch_models import Adapted


class Again(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.manager = cairn.torch.Manager(made.name, max_to_keep=2)
        self.addCleanup(self.manager.close)
        self.step = 0

    def save(self, state):
        """Returns what is stored, by key, and whether the earlier binding served."""
        before, self.step = self.manager._last[:], self.step + 1
        opened = cairn.open(self.manager.save(self.step, state))
        stored = {key: opened[key][...] for key in opened}
        return stored, before != [] and self.manager._last == before

    def check(self, state, again):
        """Saves, with the earlier binding or not, and checks that each plain tensor is stored
        right."""
        stored, served = self.save(state)
        self.assertEqual(served, again)
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and key in stored:
                self.assertEqual(np.asarray(stored[key]).tolist(), value.detach().resolve_conj().tolist(), key)
                self.assertEqual(np.asarray(stored[key]).dtype.name, str(value.dtype)[6:], key)
        return stored

    def test_values_that_changed_in_place(self):
        state = {"w": torch.arange(4.0), "p": torch.nn.Parameter(torch.ones(2, 3))}
        self.check(state, again=False)
        with torch.no_grad():
            state["w"] += 1
            state["p"].mul_(3)
        self.check(state, again=True)

    def test_tensors_that_lie_elsewhere(self):
        state = {"w": torch.arange(4.0).reshape(2, 2), "v": torch.zeros(3)}
        self.check(state, again=False)
        for change in (
            lambda: state.update(w=state["w"] + 1),
            lambda: setattr(state["w"], "data", torch.full((2, 2), 7.0)),
            lambda: state["w"].set_(torch.arange(9.0).reshape(3, 3)[1:, 1:]),
            lambda: state["w"].t_(),  # the same address and shape, and another order
            lambda: state.update(w=torch.arange(2.0).expand(2, 2)),
        ):
            change()
            self.check(state, again=True)

    def test_tensors_of_another_form(self):
        state = {"w": torch.arange(6.0).reshape(2, 3), "v": torch.zeros(3)}
        self.check(state, again=False)
        for change in (
            lambda: state["w"].resize_(3, 2),
            lambda: state["w"].resize_(1, 2),
            lambda: state.update(w=state["w"].double()),
            lambda: state["w"].data.view(torch.int64).fill_(5) is state.update(w=state["w"].view(torch.int64)),
            lambda: state.update(w=torch.tensor(1.0)),
            lambda: state.update(x=torch.ones(1)),
            lambda: state.pop("v"),
            lambda: state.update(v=torch.nn.Parameter(torch.ones(3))),
        ):
            change()
            self.check(state, again=False)
            self.check(state, again=True)

    def test_conjugates_at_the_same_address(self):
        numbers = torch.tensor([1 + 2j, 3 - 1j])
        state = {"c": numbers, "i": numbers.imag}
        self.check(state, again=False)
        state.update(c=numbers.conj(), i=numbers.conj().imag)
        self.check(state, again=False)
        self.check(state, again=True)  # they are copied each time
        numbers += 1
        self.check(state, again=True)

    def test_a_storage_that_was_made_smaller(self):
        state = {"w": torch.ones(10)}
        self.check(state, again=False)
        state["w"].untyped_storage().resize_(4)
        with self.assertRaisesRegex(cairn.Error, says("made smaller")):
            self.save(state)
        state["w"] = torch.empty(10, device="meta")
        with self.assertRaisesRegex(cairn.Error, "meta"):
            self.save(state)
        state["w"] = torch.zeros(10)
        self.check(state, again=False)

    def test_ties(self):
        state = {"a": torch.ones(3), "b": torch.zeros(3), "c": torch.full((3,), 2.0)}
        state["b"] = state["a"]
        self.assertEqual(set(self.check(state, again=False)), {"a", "c"})
        self.assertEqual(set(self.check(state, again=True)), {"a", "c"})
        state["b"] = state["a"].clone()
        self.assertEqual(set(self.check(state, again=False)), {"a", "b", "c"})
        state["b"] = state["c"]  # moved to where another one is
        self.assertEqual(set(self.check(state, again=False)), {"a", "b"})
        state["a"] = state["b"] = torch.full((3,), 5.0)
        self.assertEqual(set(self.check(state, again=False)), {"a", "c"})

    def test_other_values(self):
        state = {"n": 1, "f": 0.5, "t": "one", "l": [1, 2], "p": (0.5, None, "a"), "none": None,
                 "g": np.float32(1), "a": np.arange(3), "texts": ["x", "y"], "flag": True,
                 "nested": {"deep": [{"n": 7}]}}
        self.check(state, again=False)

        def stored_again(again, **new):
            state.update(new)
            stored, served = self.save(state)
            self.assertEqual(served, again, new)
            return stored

        stored = stored_again(True, n=2, f=1.5, t="another", l=[3, 4], p=(2.5, None, "b"),
                              g=np.float32(2), a=np.arange(3) + 5, texts=["zwölf", ""], flag=False,
                              nested={"deep": [{"n": 8}]})
        self.assertEqual([stored[key][()] for key in ("n", "f", "t", "g", "flag", "p/0", "p/2")],
                         [2, 1.5, b"another", 2, False, 2.5, b"b"])
        self.assertEqual(stored["l"].tolist() + stored["a"].tolist(), [3, 4, 5, 6, 7])
        self.assertEqual(stored["texts"].tolist(), ["zwölf".encode(), b""])
        self.assertEqual(stored["nested/deep/0/n"], 8)
        self.assertEqual(stored_again(True, texts=["a", "b", "c"])["texts"].tolist(), [b"a", b"b", b"c"])
        self.assertEqual(stored_again(False, n=2**63)["n"], 2**63)
        self.assertEqual(stored_again(False, n=3)["n"], 3)
        for new in ({"l": [1, 2, 3]}, {"l": [1.0, 2.0, 3.0]}, {"l": (1.0, 2.0, 3.0)}, {"none": 1},
                    {"g": np.float64(2)}, {"a": np.arange(4)}, {"a": np.arange(4.0)}, {"n": 3.0},
                    {"nested": {"deep": [{"n": 7}, 1]}}, {"nested": {"other": [{"n": 7}, 1]}}):
            stored_again(False, **new)
            stored_again(True)

    def test_arrays_of_cairn_are_bound_anew(self):
        state = {"s": cairn.slice(np.zeros(2), shape=(2,), start=(0,))}
        self.save(state)
        state["s"] = cairn.slice(np.ones(2), shape=(2,), start=(0,))
        stored, served = self.save(state)
        self.assertEqual((stored["s"].tolist(), served), ([1, 1], False))

    def test_models_and_what_goes_with_them(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        optimizer = torch.optim.AdamW(model.parameters())
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        state = {"model": model, "optimizer": optimizer, "schedule": schedule, "step": 0,
                 "random": cairn.torch.RandomStates()}
        self.save(state)
        for step in range(4):
            model(torch.rand(5, 3)).sum().backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            state["step"] += 1
            random_numbers = torch.get_rng_state()
            stored, served = self.save(state)
            self.assertEqual(served, step > 0)  # the first step made the optimizer's states
            self.assertEqual(stored["step"], step + 1)
            self.assertEqual(stored["model/0.weight"].tolist(), model[0].weight.tolist())
            self.assertEqual(stored["model/1.running_mean"].tolist(), model[1].running_mean.tolist())
            self.assertEqual(stored["optimizer/state/0/exp_avg"].tolist(),
                             optimizer.state_dict()["state"][0]["exp_avg"].tolist())
            self.assertEqual(stored["schedule/last_epoch"], step + 1)
            self.assertEqual(stored["random/torch/rank-0"].tolist(), random_numbers.tolist())

    def test_another_thread_that_saves_meanwhile(self):
        """The second thread gets the error that the manager is busy, and changes nothing of the
        running save."""
        state = {"w": torch.arange(5.0)}
        other = {"w": torch.full((5,), -1.0)}
        told = []

        def meanwhile(step):
            def save():
                try:
                    self.manager.save(1000, other)
                except cairn.Error as error:
                    told.append(error.code)

            thread = threading.Thread(target=save)
            thread.start()
            thread.join()

        self.manager.close()
        self.manager = cairn.torch.Manager(self.manager.directory, hooks={"before_save": meanwhile})
        self.addCleanup(self.manager.close)
        for _ in range(3):
            stored, _ = self.save(state)
            self.assertEqual(stored["w"].tolist(), state["w"].tolist())
        self.assertEqual(told, ["busy"] * 3)

    def test_tensors_that_stand_twice_in_a_dict(self):
        t, u = torch.ones(3), torch.zeros(3)
        for state, keys, again in [
                ({"a": t, "b": t}, ["c/a"], False), ({"a": t, "b": t}, ["c/a"], True),
                ({"a": u, "b": t}, ["c/a", "c/b"], False), ({"a": t, "b": u}, ["c/a", "c/b"], True),
                ({"a": t, "b": t}, ["c/a"], False), ({"a": t, "b": {"x": t}}, ["c/a"], False),
                ({"a": t, "b": {"x": u}}, ["c/a", "c/b/x"], False)]:
            stored, served = self.save({"c": state})
            self.assertEqual((sorted(stored), served), (keys, again))
            new = {"c": None}
            self.manager.restore(self.step, new)
            self.assertEqual(str(new["c"]), str(state))
            second = state["b"]["x"] if isinstance(state["b"], dict) else state["b"]
            its = new["c"]["b"]["x"] if isinstance(state["b"], dict) else new["c"]["b"]
            self.assertEqual(new["c"]["a"] is its, state["a"] is second)

    def test_nothing_is_kept_alive(self):
        state = {"w": torch.ones(3), "sub": {"v": torch.ones(2)}}
        gone = [weakref.ref(state["w"]), weakref.ref(state["sub"]["v"])]
        self.save(state)
        self.manager.save_async(9, state)
        del state["w"], state["sub"]["v"]
        self.assertEqual([one() for one in gone], [None, None])
        self.manager.wait()


def dtensors(directory):
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2,))
    whole = torch.arange(10.0).reshape(5, 2)

    def cut(full, placement):
        local = full.chunk(2)[rank].clone() if placement == Shard(0) else full.clone()
        if placement == Shard(1):
            local = full[:, rank : rank + 1].clone()
        return DTensor.from_local(local, mesh, [placement], run_check=False, shape=full.shape,
                                  stride=full.stride())

    state = {"t": cut(whole, Shard(0)), "step": 0}
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 3)
    fully_shard(model, mesh=mesh)
    state["model"] = model
    with cairn.torch.Manager(directory) as manager:
        def check(expected, again):
            before = manager._last[:]
            state["step"] += 1
            stored = cairn.open(manager.save(state["step"], state))
            dist.barrier()
            assert stored["t"][...].tolist() == expected.tolist(), (stored["t"][...], expected)
            assert stored["model/weight"][...].tolist() == model.weight.full_tensor().tolist()
            assert (before == manager._last) == again, again

        check(whole, again=False)
        state["t"]._local_tensor.add_(1)
        with torch.no_grad():
            model.weight.mul_(2)
        check(whole + 1, again=True)
        state["t"] = cut(whole, Shard(0))  # another object, with another spec, elsewhere
        check(whole, again=True)
        state["t"] = cut(whole, Shard(1))
        check(whole, again=False)
        state["t"] = cut(whole, Replicate())
        check(whole, again=False)
        state["t"] = cut(whole + 2, Replicate())
        check(whole + 2, again=True)
        # One rank has another form than before, the other has not.
        if rank == 0:
            state["only"] = torch.ones(3)
        check(whole + 2, again=rank == 1)
        # If one rank cannot save, both get the error, and go on.
        state["t"] = cut(whole, Replicate())
        if rank == 1:
            state["t"]._local_tensor.untyped_storage().resize_(4)
        try:
            manager.save(50, state)
            raise AssertionError("it was saved")
        except cairn.Error as error:
            assert error.code == "invalid_argument" and error.rank == 1, error
        state["t"] = cut(whole, Replicate())
        manager.save(51, state)
        assert cairn.open(f"{directory}/ckpt-51")["t"][...].tolist() == whole.tolist()


def adapters_of_a_frozen_model(directory, frozen):
    """As with LoRA: weights that do not change are written once, each rank its part."""
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(1)
    base, adapter = torch.nn.Linear(64, 512, bias=False), torch.nn.Linear(4, 3, bias=False)
    for one in (base, adapter):
        fully_shard(one, mesh=mesh)
    base.requires_grad_(False)
    state = {"base": base, "adapter": adapter}
    with cairn.torch.Manager(directory, frozen=frozen) as manager:
        expected = []
        for step in (1, 2, 3, 4):
            with torch.no_grad():
                adapter.weight.add_(1)
                if step == 4:
                    base.weight.mul_(2)
            manager.save(step, state)
            expected.append([one.weight.full_tensor() for one in (base, adapter)])
        written = [save["bytes"] for save in manager.statistics()["last"]]
        mine = base.weight.to_local().nbytes
        assert written[0] >= mine and written[3] >= mine and max(written[1:3]) < mine / 100, written
        for step, (weight, other) in enumerate(expected, 1):  # each by itself
            with torch.no_grad():
                base.weight.zero_()
                adapter.weight.zero_()
            manager.restore(step, state)
            assert torch.equal(base.weight.full_tensor(), weight), step
            assert torch.equal(adapter.weight.full_tensor(), other), step


class ByGradient(unittest.TestCase):
    """Parameters that need no gradient are frozen."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = made.name
        torch.manual_seed(3)
        self.model = Adapted(torch.nn.Linear(1024, 1024))
        self.optimizer = torch.optim.AdamW([*self.model.down.parameters(), *self.model.up.parameters()])
        self.state = {"model": self.model, "optimizer": self.optimizer, "step": 0,
                      "counts": torch.zeros(2000, requires_grad=False)}
        self.base = sum(one.nbytes for one in self.model.base.parameters())

    def train(self):
        self.model(torch.rand(4, 1024)).square().sum().backward()
        self.optimizer.step()
        self.state["step"] += 1
        self.state["counts"] += 1  # no parameter: not frozen

    def written(self, manager):
        return [one["bytes"] for one in manager.statistics()["last"]]

    def test_an_adapter_is_all_that_later_saves_write(self):
        with cairn.torch.Manager(self.directory, max_to_keep=0, frozen="requires_grad") as manager:
            models = []
            for step in range(8):
                self.train()
                manager.save(step, self.state)
                models.append({key: one.clone() for key, one in self.model.state_dict().items()})
            written = self.written(manager)
            rest = sum(written[1:]) / 7
            self.assertLess(rest, self.base / 4)
            self.assertLessEqual(sum(written), 1.01 * (self.base + 8 * rest))
            for step, expected in enumerate(models):
                manager.restore(step, self.state)
                for key, one in self.model.state_dict().items():
                    self.assertTrue(torch.equal(one, expected[key]), key)
        allocated = {(one.st_ino, one.st_size) for one in map(os.stat, glob.glob(f"{self.directory}/*.data-*"))}
        took = sum(size for _, size in allocated) / (self.base + 8 * rest)
        print(f"eight saves under LoRA take {took:.4f} of the model and eight adapters", flush=True)
        self.assertLessEqual(took, 1.01)

    def test_what_trains_again_is_written(self):
        with cairn.torch.Manager(self.directory, frozen="requires_grad") as manager:
            for step in range(3):
                self.train()
                manager.save(step, self.state)
            self.model.base.requires_grad_(True)
            manager.save(3, self.state)
            manager.save(4, self.state)
            self.model.base.requires_grad_(False)
            manager.save(5, self.state)
            manager.save(6, self.state)
            written = self.written(manager)
        for at, is_written in enumerate((True, False, False, True, True, True, False)):
            self.assertEqual(written[at] > self.base, is_written, written)


    def test_an_average_of_the_weights_is_not_frozen(self):
        average = copy.deepcopy(self.model).requires_grad_(False)
        self.state["average"] = average
        options = {"requires_grad": True, "read_every": 0}
        with cairn.torch.Manager(self.directory, max_to_keep=0, frozen=options) as manager:
            expected = []
            for step in range(6):
                self.train()
                with torch.no_grad():
                    for mine, one in zip(average.parameters(), self.model.parameters()):
                        mine.lerp_(one.square(), 0.1)
                manager.save(step, self.state)
                expected.append([one.clone() for one in average.parameters()])
            written = self.written(manager)
            for at, of_base in enumerate((True, True, True, True, False, False)):
                self.assertEqual(written[at] > 1.9 * self.base, of_base, written)
            for step, right in enumerate(expected):
                manager.restore(step, self.state)
                self.assertTrue(all(map(torch.equal, average.parameters(), right)), step)

    def test_requires_grad_is_true_or_false(self):
        with self.assertRaisesRegex(cairn.Error, "frozen.requires_grad"):
            cairn.torch.Manager(self.directory, frozen={"requires_grad": "yes"})


class AgainOnRanks(unittest.TestCase):
    def test_frozen_weights(self):
        for frozen in ({"keys": ["base/*"]}, "requires_grad"):
            with self.subTest(frozen=frozen), tempfile.TemporaryDirectory() as directory:
                job(2, adapters_of_a_frozen_model, directory, frozen)

    def test_dtensors(self):
        with tempfile.TemporaryDirectory() as directory:
            job(2, dtensors, directory)


if __name__ == "__main__":
    unittest.main()
