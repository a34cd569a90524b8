"""Faults in jobs of torch: backends that fail, groups and ranks that are gone, memory that two
tensors share in part."""

import datetime
import os
import tempfile
import unittest

from torch_jobs import job  # first: it sets what torch reads when it is imported

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import cairn
import cairn.torch
from says import says


class Broken(dist.ProcessGroup):
    """A backend like nccl after a link or a GPU has failed: each call fails, later or at once."""

    def getBackendName(self):
        return "broken"

    def _fail(self, *arguments):
        raise RuntimeError("NCCL error: unhandled system error")

    allreduce = allgather = broadcast = barrier = send = recv = _fail


def with_a_broken_backend(directory, store):
    rank = int(os.environ["TEST_RANK"])
    dist.Backend.register_backend("broken", lambda *_: Broken(rank, 2), devices=["cpu"])
    dist.init_process_group("broken", store=dist.FileStore(store, 2), rank=rank, world_size=2)
    try:
        dist.all_reduce(torch.ones(1))
        raise AssertionError("the backend works")
    except RuntimeError as failure:
        assert "NCCL error" in str(failure), failure
    # The state until then is saved nevertheless: over a group of gloo.
    with cairn.torch.Manager(directory) as manager:
        state = {"w": torch.arange(4.0), "mine": cairn.torch.per_rank(rank)}
        manager.save(1, state)
        manager.save_async(2, state)
        manager.wait()
        state["w"] = torch.zeros(4)
        manager.restore_latest(state)
        assert state["w"].tolist() == [0, 1, 2, 3] and state["mine"].value == rank


def started(rank_function, *arguments):
    """Two ranks that make their process group themselves."""
    with tempfile.TemporaryDirectory() as place:
        children = []
        for rank in range(2):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.environ["TEST_RANK"] = str(rank)
                    rank_function(*arguments, os.path.join(place, "store"))
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def with_groups_that_are_gone(directory):
    pair = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=30))
    with cairn.torch.Manager(directory, pair) as manager:
        dist.destroy_process_group(pair)
        manager.save(1, {"w": torch.ones(2)})  # over a group of its own
        manager.save_async(2, {"w": torch.ones(2)})
    with cairn.torch.Manager(directory) as manager:
        assert [one["step"] for one in manager.steps()] == [1, 2]
    for _ in range(2):
        for made in (lambda: cairn.torch.Manager(directory, pair),
                     lambda: cairn.torch.StorageReader(directory, pair)):
            try:
                made()
                raise AssertionError("made on a group that was destroyed")
            except cairn.Error as error:
                assert error.code == "invalid_argument" and "was destroyed" in str(error), error
        if dist.is_initialized():
            dist.destroy_process_group()


def with_a_rank_that_is_gone(directory):
    manager = cairn.torch.Manager(directory)
    manager.save(1, {"w": torch.ones(2)})
    if dist.get_rank() == 1:
        os._exit(0)
    manager.save(2, {"w": torch.ones(2)})  # nobody answers: this ends the process


def uneven(directory):
    """Four ranks have 2, 2, 1 and none of 5 rows."""
    mesh = init_device_mesh("cpu", (4,))
    full = torch.arange(10.0).reshape(5, 2)
    own = full[2 * dist.get_rank() : 2 * dist.get_rank() + 2].clone()

    def tensor(local):
        return DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=full.shape,
                                  stride=full.stride())

    with cairn.torch.Manager(directory) as manager:
        for step in (1, 2):
            manager.save(step, {"w": tensor(own)})
        got = tensor(torch.zeros_like(own))
        manager.restore_latest({"w": got})
        assert torch.equal(got._local_tensor, own), got
        # On one rank a part does not match its placement.
        wrong = own[:1] if dist.get_rank() == 0 else own
        try:
            manager.save(3, {"w": tensor(wrong)})
            raise AssertionError("it was saved")
        except cairn.Error as error:
            assert error.code == "invalid_argument" and error.rank == 0 and "mean" in str(error), error
    assert cairn.open(directory)["w"][...].tolist() == full.tolist()


def stages(directory):
    """Each rank has its own layer, and an optimizer that names parameters by position."""
    layer = torch.nn.Linear(3, 2 + dist.get_rank())
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(3)).sum().backward()
    optimizer.step()
    with cairn.torch.Manager(directory) as manager:
        try:
            manager.save(1, {"optimizer": optimizer})
            raise AssertionError("it was saved")
        except cairn.Error as error:
            assert (error.code, error.tensor) == ("disagreement", "optimizer/state/0/exp_avg"), error
            assert "cairn.torch.by_name(" in error.way_out and error.way_out in str(error), error
        # Names are the same on all ranks, and each rank has its own value.
        named = cairn.torch.by_name(optimizer, torch.nn.Sequential(layer))
        for number, (state, words) in enumerate((
                ({"all": {"model": torch.nn.Sequential(layer)}}, "'all/model' is the same"), ({"o": named}, "ModuleDict("),
                ({"x": dist.get_rank()}, "cairn.torch.per_rank("))):
            try:
                manager.save(2 + number, state)
                raise AssertionError("it was saved")
            except cairn.Error as error:
                assert error.code == "disagreement", error
                assert words in error.way_out and error.way_out in str(error), error
        named = cairn.torch.by_name(optimizer, torch.nn.ModuleDict({f"{dist.get_rank()}": layer}))
        manager.save(1, {"optimizer": named})


def other_kinds(directory):
    """What ranks have under one key, in words, and what the error advises."""
    first = dist.get_rank() == 0
    manager = cairn.torch.Manager(directory)
    plain = cairn.CheckpointManager(f"{directory}/plain", cairn.torch.group())
    for mine, words in (
            ([] if first else [1.0], "'x' is not of one kind on all ranks (it is an empty list on rank 0, a list of "
             "numbers or texts on rank 1)"),
            ((1, 2) if first else [1, 2], "it is a tuple of numbers or texts on rank 0, a list of"),
            ({"a": [1, None]} if first else {"a": [None, None]}, "'x/a/0' is not of one kind on all ranks (it is a "
             "value of the kind 'int' on rank 0, None on rank 1)"),
            ({"a": [1, None]} if first else {"a": [1, None, 2]}, "'x/a' is not of one kind on all ranks (it is a list of "
             "2 values on rank 0, a list of 3 values on rank 1)"),
            ({"a": 1} if first else {"b": 1}, "a dict with 'a' on rank 0, a dict with 'b' on rank 1"),
            ({} if first else {"a": 1}, "or an empty one on rank 0, a dict with 'a' on rank 1"),
            (None if first else 1.5, "None or what is empty on rank 0, float64 [] on rank 1"),
            (None if first else np.ones(3), "is None on rank 0, a value of the kind 'array' on rank 1"),
            (None if first else torch.ones(3), "None or what is empty on rank 0, float32 [3] on rank 1")):
        for one in (manager, plain):
            if one is plain and (isinstance(mine, torch.Tensor) or "float32" in words or "'array'" in words):
                continue
            for save in (one.save, one.save_async):
                try:
                    save(1, {"x": mine})
                    raise AssertionError("it was saved")
                except cairn.Error as error:
                    assert error.code == "disagreement", error
                    assert words in str(error) and "{" not in str(error), error
                    assert ("cairn.torch.per_rank(" in str(error)) == (one is manager), error
    manager.close()
    plain.close()


class Bad(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = made.name

    def test_a_backend_that_fails(self):
        self.assertEqual(started(with_a_broken_backend, self.directory), [0, 0])

    def test_groups_that_were_destroyed(self):
        job(2, with_groups_that_are_gone, self.directory)

    def test_a_rank_that_died(self):
        with self.assertRaisesRegex(AssertionError, says("rank 0 of 2 ended with -6")):
            job(2, with_a_rank_that_is_gone, self.directory)
        self.assertEqual(cairn.steps(self.directory), [1])

    def test_an_optimizer_by_position_of_parameters_that_differ(self):
        job(2, stages, self.directory)

    def test_values_of_other_kinds(self):
        job(2, other_kinds, self.directory)

    def test_uneven_shards(self):
        job(4, uneven, self.directory)

    def test_memory_that_is_shared_in_part(self):
        base = torch.arange(12.0)
        state = {"base": base, "tail": base[4:], "rows": base.view(3, 4), "again": base.view(3, 4),
                 "twisted": base.view(3, 4).t(), "bits": base.view(torch.int32), "none": base[:0]}
        with cairn.torch.Manager(self.directory) as manager:
            for step in (1, 2):
                manager.save(step, state)
                opened = cairn.open(self.directory)
                self.assertEqual(set(opened), set(state) - {"again"})  # which is tied to rows
                for key in opened:
                    self.assertEqual(opened[key][...].tolist(), state[key].tolist(), key)
                base += 1
            new = {key: torch.zeros_like(value) for key, value in state.items() if key != "again"}
            manager.restore_latest(new)
        base -= 1
        for key, value in new.items():
            self.assertTrue(torch.equal(value, state[key]), key)

    def test_gradients(self):
        weight = torch.nn.Parameter(torch.ones(3))
        product = weight * 2  # no leaf: part of a graph
        product.sum().backward()
        with cairn.torch.Manager(self.directory) as manager:
            manager.save(1, {"w": weight, "grad": weight.grad, "product": product})
            new = {"w": torch.nn.Parameter(torch.zeros(3)), "grad": torch.zeros(3),
                   "product": torch.zeros(3)}
            manager.restore_latest(new)
        self.assertEqual([one.tolist() for one in new.values()], [[1.0] * 3, [2.0] * 3, [2.0] * 3])
        self.assertTrue(new["w"].requires_grad and new["w"].is_leaf)


if __name__ == "__main__":
    unittest.main()
