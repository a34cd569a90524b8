"""torch.distributed.checkpoint through Cairn: which reader reads what, and errors."""

import copy
import glob
import os
import pickle
import tempfile
import unittest

from torch_jobs import job  # first: it sets what torch reads when it is imported

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import cairn
import cairn.torch
from cairn import _cairn
from says import says

FULL = torch.arange(2.0 * 9 * 512).reshape(18, 512)


def state_of(full, placements, same=None):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = {"w": distribute_tensor(full, mesh, placements), "step": int(full.sum().item() > 0)}
    if same is not None:
        state["same"] = same
    return state


def save(directory):
    writer = cairn.torch.StorageWriter(directory)
    dcp.save(state_of(FULL, [Shard(0)]), checkpoint_id="1", storage_writer=writer)
    dcp.save(state_of(FULL, [Replicate()], torch.ones(50_000)), checkpoint_id="2",
             storage_writer=writer)
    dcp.save(state_of(FULL, [Shard(0)]), checkpoint_id="3", storage_writer=writer)
    writer.manager.close()


def load(prefix, placements, sizes, same=None):
    """The checkpoint is read by groups of these sizes."""
    read, used = _cairn.read_checkpoint, []
    _cairn.read_checkpoint = lambda ranks, *rest: used.append(ranks.size) or read(ranks, *rest)
    try:
        for _ in range(2):
            state = state_of(torch.zeros_like(FULL), placements, same)
            dcp.load(state, storage_reader=cairn.torch.StorageReader(prefix))
            assert torch.equal(state["w"].full_tensor(), FULL) and state["step"] == 1
            assert same is None or torch.equal(state["same"], torch.ones(50_000))
    finally:
        _cairn.read_checkpoint = read
    assert used == sizes * 2, (used, sizes)


def loads(directory):
    ranks = dist.get_world_size()
    one = f"{directory}/ckpt-1"
    load(one, [Shard(0)], [1] if ranks == 2 else [ranks])
    load(one, [Shard(1)], [ranks])
    load(one, [Replicate()], [ranks])
    load(f"{directory}/ckpt-2", [Replicate()], [ranks], torch.zeros(50_000))


def damaged(directory):
    for placements in ([Shard(0)], [Shard(1)]):
        state = state_of(torch.zeros_like(FULL), placements)
        try:
            dcp.load(state, storage_reader=cairn.torch.StorageReader(f"{directory}/ckpt-1"))
            raise AssertionError("it was loaded")
        except dcp.api.CheckpointException as failure:
            causes = [error for error, _ in failure.failures.values()]
            assert causes and all(isinstance(one, cairn.Error) and one.code == "data_loss"
                                  and one.tensor == "w" for one in causes), failure


def missing(directory):
    """DCP itself reports a missing key, and another shape, too."""
    for key, value in (("none", torch.ones(2)), ("w", torch.ones(3, 3))):
        try:
            dcp.load({key: value}, storage_reader=cairn.torch.StorageReader(f"{directory}/ckpt-1"))
            raise AssertionError("it was loaded")
        except dcp.api.CheckpointException as failure:
            assert key in str(failure), failure


def different_ones(directory):
    """A job saves while ranks look for its newest checkpoint, one after the other."""
    for placements in ([Shard(0)], [Shard(1)]):
        state = state_of(torch.zeros_like(FULL), placements)
        mine = f"{directory}/ckpt-{1 + 2 * dist.get_rank()}"
        try:
            dcp.load(state, storage_reader=cairn.torch.StorageReader(mine))
            raise AssertionError("it was loaded")
        except dcp.api.CheckpointException as failure:
            assert len(failure.failures) == dist.get_world_size(), failure
            assert "opened different checkpoints" in str(failure), failure
        assert not state["w"].to_local().any()


def plans_that_are_kept(directory):
    """DCP's planner sends nothing for a plan that it has made before."""
    mesh = init_device_mesh("cpu", (2,))

    def state_of_step(step):
        state = {"w": distribute_tensor(FULL * step, mesh, [Shard(0)]), "b": torch.full((3,), 1.0 * step),
                 "step": step, "nested": [1, {"x": step}]}
        if step >= 3:  # another structure
            state["more"] = torch.ones(2) * step
        return state

    writer = cairn.torch.StorageWriter(directory)
    for step in range(1, 5):
        dcp.save(state_of_step(step), checkpoint_id=step, storage_writer=writer,
                 planner=dcp.DefaultSavePlanner(enable_plan_caching=True))
    writer.manager.close()
    for step in range(1, 5):
        state, right = state_of_step(step), state_of_step(step)
        for one in (state["w"].to_local(), state["b"], state.get("more", torch.empty(0))):
            one.zero_()
        state["step"], state["nested"][1]["x"] = 0, 0
        dcp.load(state, storage_reader=cairn.torch.StorageReader(f"{directory}/ckpt-{step}"))
        for key in ("b", "more")[: 1 + (step >= 3)]:
            assert torch.equal(state[key], right[key]), (step, key)
        assert torch.equal(state["w"].to_local(), right["w"].to_local()), step
        assert (state["step"], state["nested"]) == (step, [1, {"x": step}]), (step, state)


def copies_of_other_meshes(directory):
    """The copy that async_save keeps has the mesh and the placements of the save before."""
    ranks = list(range(dist.get_world_size()))
    forth, back = init_device_mesh("cpu", (2,)), DeviceMesh("cpu", ranks[::-1])
    writer = cairn.torch.StorageWriter(directory, max_to_keep=0)
    ways = [(forth, Shard(0)), (back, Shard(0)), (forth, Shard(1)), (forth, Replicate()), (None, None)]
    for step, (mesh, placement) in enumerate(ways):
        given = FULL + step
        if mesh is not None:
            local = given
            if placement.is_shard():
                local = given.chunk(2, placement.dim)[mesh.get_coordinate()[0]].contiguous()
            given = DTensor.from_local(local, mesh, [placement], run_check=False)
        dcp.async_save({"w": given}, checkpoint_id=step, storage_writer=writer).result()
    writer.manager.close()
    for step in range(len(ways)):
        assert (cairn.open(f"{directory}/ckpt-{step}")["w"][...] == (FULL + step).numpy()).all(), step


class Loads(unittest.TestCase):
    def test_copies_of_other_meshes(self):
        with tempfile.TemporaryDirectory() as directory:
            job(2, copies_of_other_meshes, directory)

    def test_plans_that_are_kept(self):
        with tempfile.TemporaryDirectory() as directory:
            job(2, plans_that_are_kept, directory)

    def test_ranks_that_have_their_own_slices_read_alone(self):
        with tempfile.TemporaryDirectory() as directory:
            job(2, save, directory)
            for ranks in (2, 3):
                job(ranks, loads, directory)
            job(2, missing, directory)
            job(2, different_ones, directory)

    def test_a_writer_stays_in_its_process(self):
        """AsyncCheckpointerType.PROCESS would need the writer in another process."""
        with tempfile.TemporaryDirectory() as directory:
            writer = cairn.torch.StorageWriter(directory)
            dcp.save({"w": torch.ones(2)}, checkpoint_id="1", storage_writer=writer, no_dist=True)
            for copied in (pickle.dumps, copy.deepcopy):
                with self.assertRaises(cairn.Error) as caught:
                    copied(writer)
                self.assertEqual(caught.exception.code, "invalid_argument")
                self.assertIn("THREAD", str(caught.exception))
            dcp.save({"w": torch.ones(2)}, checkpoint_id="2", storage_writer=writer, no_dist=True)
            writer.manager.close()
            self.assertEqual(cairn.steps(directory), [1, 2])

    def test_all_ranks_hear_of_damage(self):
        with tempfile.TemporaryDirectory() as directory:
            job(2, save, directory)
            files = glob.glob(f"{directory}/ckpt-1.data-*")
            with open(max(files, key=os.path.getsize), "r+b") as file:
                file.seek(5000)
                byte = file.read(1)
                file.seek(5000)
                file.write(bytes([byte[0] ^ 1]))
            job(2, damaged, directory)


def save_by_dcp(directory):
    mesh = init_device_mesh("cpu", (2, 2))
    full = torch.arange(35.0).reshape(5, 7)
    state = {
        "model": {"w": distribute_tensor(full, mesh, [Shard(0), Shard(1)]), "b": torch.arange(3)},
        "optimizer": {"state": {0: {"step": torch.tensor(4.0)}}, "groups": [{"lr": 0.5}]},
        "note": "text",
    }
    writer = cairn.torch.StorageWriter(directory, max_to_keep=5)
    dcp.save(state, checkpoint_id=f"{directory}/ckpt-3", storage_writer=writer)
    dcp.save(state, checkpoint_id="4", storage_writer=writer)
    for step in [5, 6]:
        future = dcp.async_save(state, checkpoint_id=f"{directory}/ckpt-{step}", storage_writer=writer)
        with torch.no_grad():
            state["model"]["w"]._local_tensor.add_(1)
        future.result()
    try:
        dcp.save(state, checkpoint_id="elsewhere/ckpt-1", storage_writer=writer)
        raise AssertionError("it saved elsewhere")
    except cairn.Error as failure:
        assert "no step" in str(failure), failure
    # DCP tells the writer nothing then; the step of the save before must not be used again.
    try:
        dcp.save(state, storage_writer=writer)
        raise AssertionError("it saved, without a step")
    except BaseException as failure:  # DCP's CheckpointException is no Exception
        assert "dcp.save was given none" in str(failure), failure
    writer.manager.close()


def load_by_dcp(directory):
    for step, more in [(3, 0), (4, 0), (5, 0), (6, 1)]:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        state = {
            "model": {"w": distribute_tensor(torch.zeros(5, 7), mesh, [Shard(1)]),
                      "b": torch.zeros(3, dtype=torch.float64)},
            "optimizer": {"state": {0: {"step": torch.tensor(0.0)}}, "groups": [{"lr": 0.0}]},
            "note": "",
        }
        reader = cairn.torch.StorageReader(f"{directory}/ckpt-{step}")
        dcp.load(state, storage_reader=reader)
        full = state["model"]["w"].full_tensor()
        assert torch.equal(full, torch.arange(35.0).reshape(5, 7) + more), (step, full)
        assert state["model"]["b"].tolist() == [0, 1, 2]
        assert state["optimizer"]["state"][0]["step"] == 4
        assert state["optimizer"]["groups"] == [{"lr": 0.5}] and state["note"] == "text"


class Evil:
    def __reduce__(self):
        return (os.makedirs, (os.environ["EVIL"],))


class TorchsOwnCheckpoints(unittest.TestCase):
    def test_dcp_saves_and_loads_through_it(self):
        with tempfile.TemporaryDirectory() as directory:
            job(4, save_by_dcp, directory)
            for ranks in [1, 3]:
                job(ranks, load_by_dcp, directory)
            opened = cairn.open(f"{directory}/ckpt-3")
            self.assertEqual(opened["model.w"][...].tolist(),
                             torch.arange(35.0).reshape(5, 7).tolist())
            self.assertEqual(len(opened["model.w"].slices), 4)

    def test_pickles_are_not_run(self):
        with tempfile.TemporaryDirectory() as directory:
            os.environ["EVIL"] = f"{directory}/evil"
            writer = cairn.torch.StorageWriter(directory)
            dcp.save({"x": Evil(), "t": torch.ones(2)}, checkpoint_id="1", storage_writer=writer)
            writer.manager.close()
            state = {"x": Evil(), "t": torch.zeros(2)}
            with self.assertRaisesRegex(dcp.api.CheckpointException, says("could run code")):
                dcp.load(state, storage_reader=cairn.torch.StorageReader(directory))
            self.assertFalse(os.path.exists(os.environ["EVIL"]))
            dcp.load(state, storage_reader=cairn.torch.StorageReader(directory, unpickle=True))
            self.assertTrue(os.path.exists(os.environ["EVIL"]))


if __name__ == "__main__":
    unittest.main()
