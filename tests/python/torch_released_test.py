"""Saves that leave parameters and an optimizer's state where they are until its next step: a training
that is saved so, and one that goes on from each of its checkpoints, have the bits of an undisturbed one.
CAIRN_TEST_DEVICE=cuda: one process trains on that device."""

import os
import tempfile
import unittest

from torch_jobs import job  # first: it sets what torch reads when it is imported

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import cairn
import cairn.torch

STEPS = 6
DEVICE = os.environ.get("CAIRN_TEST_DEVICE", "cpu")


class Net(torch.nn.Module):
    """With buffers, random numbers, and a part that another optimizer trains."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(8, 400), torch.nn.BatchNorm1d(400)
        self.second, self.last = torch.nn.Linear(400, 300), torch.nn.Linear(300, 3)

    def forward(self, x):
        hidden = torch.nn.functional.dropout(self.norm(self.first(x)).relu(), 0.3)
        return self.last(self.second(hidden).relu())


def local(value):
    return value.to_local() if isinstance(value, DTensor) else value


def bits(model, *optimizers):
    tensors = list(model.state_dict().values())
    for one in optimizers:
        for state in one.state_dict()["state"].values():
            tensors += filter(torch.is_tensor, state.values())
    return [local(one).detach().clone() for one in tensors]


class Training:
    def __init__(self, wrap, device="cpu"):
        torch.manual_seed(3)
        self.device = device
        self.model = wrap(Net().to(device))
        bare = getattr(self.model, "module", self.model)
        mine = list(bare.last.parameters())
        others = [one for one in bare.parameters() if all(one is not its for its in mine)]
        self.optimizer = torch.optim.AdamW(others, lr=0.01)
        self.other = torch.optim.SGD(mine, lr=0.1, momentum=0.9)
        self.state = {"model": bare, "optimizer": self.optimizer, "other": self.other, "step": 0,
                      "random": cairn.torch.RandomStates()}

    def step(self):
        """The other optimizer makes its step first: what it changes was copied at the call."""
        self.state["step"] += 1
        x = torch.randn(16, 8, device=self.device)
        self.model(x).square().mean().backward()
        self.other.step()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.other.zero_grad()

    def bits(self):
        return bits(self.state["model"], self.optimizer, self.other)


def run(wrap, device="cpu"):
    """Trains and saves each step; then goes on from each checkpoint."""
    with tempfile.TemporaryDirectory() as scratch:
        place = [scratch]
        if torch.distributed.is_initialized():
            torch.distributed.broadcast_object_list(place)
        undisturbed, right = Training(wrap, device), []
        for _ in range(STEPS):
            undisturbed.step()
            right.append(undisturbed.bits())
        with cairn.torch.Manager(place[0] + "/run", max_to_keep=0) as manager:
            saved = Training(wrap, device)
            for step in range(1, STEPS + 1):
                saved.step()
                assert all(map(torch.equal, saved.bits(), right[step - 1])), step
                handle = manager.save_async(step, saved.state, until="optimizer.step")
                assert handle.blocked_because == ""
            manager.wait()
            for step in range(1, STEPS):
                torch.manual_seed(99)
                again = Training(wrap, device)
                manager.restore(step, again.state)
                assert again.state["step"] == step
                assert all(map(torch.equal, again.bits(), right[step - 1])), step
                again.step()
                assert all(map(torch.equal, again.bits(), right[step])), step
        if torch.distributed.is_initialized():
            torch.distributed.barrier()


def ddp(model):
    return DistributedDataParallel(model)


def fsdp2(model):
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for one in (model.first, model.second, model.last):
        fully_shard(one, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


class Released(unittest.TestCase):
    def test_one_process(self):
        job(0, run, lambda model: model, DEVICE)

    def test_ddp(self):
        job(2, run, ddp)

    def test_fsdp2(self):
        job(2, run, fsdp2)

    def test_what_stays(self):
        training = Training(lambda model: model, DEVICE)
        training.step()
        with tempfile.TemporaryDirectory() as scratch, cairn.torch.Manager(scratch) as manager:
            for until, keys in (("optimizer.step", {"optimizer"}), ("other.step", {"other"}),
                                ("released", {"optimizer", "other"})):
                options = {"until": until}
                stays = manager._saving(training.state)
                self.assertEqual(manager._for(stays, training.state, options), {"until": "released"})
                trained = {id(one) for key in keys for group in training.state[key].param_groups
                           for one in group["params"]}
                own = {id(one) for key in keys for its in training.state[key].state.values()
                       for one in its.values() if torch.is_tensor(one)}
                self.assertEqual({id(one) for one in stays.stays.tensors}, trained | own)
                self.assertNotIn(id(training.model.norm.running_mean), trained | own)

    def test_released_by_hand(self):
        training = Training(lambda model: model, DEVICE)
        with tempfile.TemporaryDirectory() as scratch, cairn.torch.Manager(scratch) as manager:
            training.step()
            right = training.bits()
            handle = manager.save_async(1, training.state, until="released")
            handle.release()
            training.step()
            manager.wait()
            manager.restore(1, training.state)
            self.assertTrue(all(map(torch.equal, training.bits(), right)))

    def test_several_saves_before_a_step(self):
        """As gradients are accumulated, or where a scaler leaves out a step; beside hooks of the program."""
        training = Training(lambda model: model, DEVICE)
        optimizer, called = training.state["optimizer"], []
        with tempfile.TemporaryDirectory() as scratch, cairn.torch.Manager(f"{scratch}/one") as manager, \
                cairn.torch.Manager(f"{scratch}/two") as other:
            training.step()
            for step in (1, 2):
                right = training.bits()
                manager.save_async(10 * step, training.state, until="optimizer.step")
                other.save_async(step, training.state, until="optimizer.step")
                optimizer.register_step_pre_hook(lambda *_: called.append(step))
                manager.save_async(10 * step + 1, training.state, until="optimizer.step")
                training.step()
                manager.wait()
                other.wait()
                for its, saved in ((manager, 10 * step), (manager, 10 * step + 1), (other, step)):
                    its.restore(saved, training.state)
                    self.assertTrue(all(map(torch.equal, training.bits(), right)), saved)
            self.assertEqual(called, [1, 2, 2])  # a loop's functions see its variable

    def test_no_such_optimizer(self):
        training = Training(lambda model: model, DEVICE)
        with tempfile.TemporaryDirectory() as scratch, cairn.torch.Manager(scratch) as manager:
            for until in ("adam.step", "model.step", "step.step"):
                with self.assertRaises(cairn.Error) as caught:
                    manager.save_async(1, training.state, until=until)
                self.assertEqual(caught.exception.code, "invalid_argument")
                self.assertIn("has no optimizer", str(caught.exception))
            for until in ("release", "optimizer"):
                with self.assertRaisesRegex(cairn.Error, 'Give "captured", "released", or "KEY.step"'):
                    manager.save_async(1, training.state, until=until)


if __name__ == "__main__":
    unittest.main()
