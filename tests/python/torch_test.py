"""cairn.torch on gloo, with 1 to 4 processes."""

import os
import random
import signal
import tempfile
import unittest

from torch_jobs import job  # first: it sets what torch reads when it is imported

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

import cairn
import cairn.torch

torch.set_num_threads(1)
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float16, torch.int64, torch.int8,
          torch.bool, torch.complex64, torch.uint8, torch.float8_e4m3fn, torch.int32, torch.float8_e8m0fnu]
SHAPES = [(8, 6), (5, 7), (16, 4, 3), (3,), (2, 9), (1, 1), (12,)]


def bits(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def values(shape, dtype, seed):
    made = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-100, 100, shape, generator=made)
    return (numbers > 0) if dtype == torch.bool else numbers.to(torch.float32).to(dtype)


def tensors():
    for number, shape in enumerate(SHAPES):
        for dtype in DTYPES[number % 3 :: 3]:
            name = f"{'x'.join(map(str, shape))}-{str(dtype)[6:]}"
            yield name, values(shape, dtype, number)


def placements_of(mesh, dims):
    """Every placement, single or in pairs, that a mesh allows for so many dimensions."""
    kinds = [Replicate()] + [Shard(d) for d in range(dims)]
    if mesh.ndim == 1:
        return [[one] for one in kinds]
    pairs = [[first, second] for first in kinds for second in kinds]
    return pairs + [[_StridedShard(d, split_factor=mesh.shape[1]), Shard(d)] for d in range(dims)]


def chunk(tensor, number, at, d):
    each = -(-tensor.shape[d] // number)
    return tensor[(slice(None),) * d + (slice(at * each, (at + 1) * each),)]


def distributed(full, mesh, placements):
    """Each rank cuts for itself; distribute_tensor would send messages, and does not support all
    dtypes."""
    local, steps = full, list(zip(placements, mesh.shape, mesh.get_coordinate()))
    if any(isinstance(one, _StridedShard) for one in placements):
        steps.reverse()  # what is strided was cut along the last dimension of the mesh first
    for placement, number, at in steps:
        if not placement.is_replicate():
            local = chunk(local, number, at, placement.dim)
    return DTensor.from_local(local.clone(), mesh, placements, run_check=False, shape=full.shape,
                              stride=full.stride())


def on_mesh(shape, fill):
    """A tree with each tensor in each placement."""
    names = ("a", "b")[: len(shape)]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    state = {}
    for name, full in tensors():
        full = full if fill else torch.zeros_like(full)
        state[name] = {
            str(number): distributed(full, mesh, placements)
            for number, placements in enumerate(placements_of(mesh, full.dim()))
        }
    return state


def save_on_mesh(directory):
    state = on_mesh((2, 2), fill=True)
    with cairn.torch.Manager(directory) as manager:
        manager.save(1, {"m": state, "step": 1})
        manager.save_async(2, {"m": state, "step": 2})
        # The application's collectives run beside the save.
        for _ in range(20):
            dist.all_reduce(torch.ones(3))
        assert manager.should_save(7) is False
        manager.wait()
        manager.save_async(3, {"m": state, "step": 3})


def load_on_mesh(directory, shape):
    stored = cairn.open(directory)
    state = {"m": on_mesh(shape, fill=False), "step": 0}
    right = on_mesh(shape, fill=True)
    # Looked up by key, since with fewer dimensions there are other placements.
    wanted = {f"m/{name}/{number}": tensor for name, all_placements in state.pop("m").items()
              for number, tensor in all_placements.items() if f"m/{name}/{number}" in stored}
    state.update(wanted)
    with cairn.torch.Manager(directory) as manager:
        assert manager.restore_latest(state)["step"] == 3
    assert state["step"] == 3
    for key, tensor in wanted.items():
        _, name, number = key.split("/")
        assert bits(tensor._local_tensor) == bits(right[name][number]._local_tensor), key


class Meshes(unittest.TestCase):
    def test_from_2x2_to_1_3_4(self):
        with tempfile.TemporaryDirectory() as directory:
            job(4, save_on_mesh, directory)
            opened = cairn.open(directory)
            self.assertEqual(opened.step, 3)
            for name, full in tensors():
                keys = [key for key in opened if key.startswith(f"m/{name}/")]
                self.assertGreater(len(keys), 3)
                for key in keys:
                    self.assertEqual(np.asarray(opened[key][...]).tobytes(), bits(full), key)
            for ranks, shape in [(1, (1,)), (3, (3,)), (4, (4,)), (4, (1, 4)), (4, (4, 1))]:
                job(ranks, load_on_mesh, directory, shape)

    def test_sub_mesh_partial_and_wrong_ones(self):
        with tempfile.TemporaryDirectory() as directory:
            job(3, sub_mesh, directory)


def sub_mesh(directory):
    full = torch.arange(10.0)
    mesh = dist.DeviceMesh("cpu", [0, 2])
    outside = mesh.get_coordinate() is None
    local = torch.empty(0) if outside else full.chunk(2)[mesh.get_coordinate()[0]].clone()
    tensor = DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=full.shape,
                                stride=(1,))
    whole = dist.DeviceMesh("cpu", [0, 1, 2])
    with cairn.torch.Manager(directory) as manager:
        manager.save(1, {"t": tensor})
        tensor._local_tensor.zero_()
        manager.restore(1, {"t": tensor})
        if not outside:
            assert torch.equal(tensor._local_tensor, full.chunk(2)[mesh.get_coordinate()[0]])
        assert cairn.open(directory)["t"][...].tolist() == full.tolist()
        sums = DTensor.from_local(full, whole, [Partial()], run_check=False)
        refused(manager, "invalid_argument", "partial", {"t": sums})
        odd = DTensor.from_local(torch.ones(2 + dist.get_rank()), whole, [Shard(0)],
                                 run_check=False, shape=(9,), stride=(1,))
        refused(manager, "invalid_argument", "mean", {"t": odd})
        # Keys that only one rank has, and replicas that differ, are refused.
        refused(manager, "disagreement", "t", {"t": full + (dist.get_rank() == 1)})
        one = {"t": full, **({"more": full + 1} if dist.get_rank() == 2 else {})}
        manager.save(8, one)
        assert set(cairn.open(directory)) == {"t", "more"}
        # A meta tensor on one rank is an error on all.
        here = torch.empty(3, device="meta" if dist.get_rank() == 1 else "cpu")
        refused(manager, "invalid_argument", "meta", {"t": here})
        dist.destroy_process_group()  # ours is one of its own
        manager.save(20, {"t": full})


class Loads(torch.utils.data.Dataset):
    """Each item is made in a worker, a fork of the rank: it returns what a save there says."""

    def __init__(self, manager):
        self.manager = manager

    def __len__(self):
        return 4

    def __getitem__(self, number):
        try:
            self.manager.save(50 + number, {"t": torch.ones(3)})
        except cairn.Error as error:
            return torch.tensor(float(error.code == "invalid_argument" and "fork" in str(error)))
        return torch.tensor(-1.0)


def with_workers(directory):
    full = torch.arange(10.0)
    with cairn.torch.Manager(directory) as manager:
        manager.save_async(1, {"t": full})  # in flight while workers are forked
        told = list(torch.utils.data.DataLoader(Loads(manager), num_workers=2))
        assert [one.item() for one in told] == [1.0] * 4, told
        manager.wait()
        manager.save(2, {"t": full})  # workers that ended left the directory to this rank
        got = {"t": torch.zeros(10)}
        manager.restore_latest(got)
        assert torch.equal(got["t"], full)
        assert [one["step"] for one in manager.steps()] == [1, 2]


def stop_together(directory, way):
    rank = dist.get_rank()
    with cairn.torch.Manager(directory, stop=True, when={"interval": {"steps": 3}}) as manager:
        saved = []
        for step in range(1, 100_000):
            if step == 5 and rank == 1:
                manager.request_stop() if way == "asked" else os.kill(os.getpid(), signal.SIGTERM)
            if manager.should_save(step):
                saved.append(step)
                manager.save(step, {"step": step})
            if reason := manager.should_stop():
                break
        said = [None] * dist.get_world_size()
        dist.all_gather_object(said, (step, reason, saved))
        assert said == [said[0]] * len(said), said
        assert reason and step >= 5 and saved[-1] in (step, step - step % 3), said


class Jobs(unittest.TestCase):
    def test_forked_loader_workers(self):
        for ranks in (0, 2):
            with tempfile.TemporaryDirectory() as directory:
                job(ranks, with_workers, directory)

    def test_all_ranks_stop_in_the_same_step(self):
        for way in ("asked", "signal"):
            with tempfile.TemporaryDirectory() as directory:
                job(3, stop_together, directory, way)


def refused(manager, code, words, state):
    try:
        manager.save(9, state)
    except cairn.Error as error:
        assert error.code == code and words in str(error), error
        return
    raise AssertionError(f"{words}: it was saved")


def model_and_friends(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(),
                                torch.nn.Linear(8, 4))
    model.append(torch.nn.Linear(4, 4))
    model[4].weight = torch.nn.Parameter(torch.rand(4, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, betas=(0.8, 0.9))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    loader = {"epoch": 0, "order": list(range(10)), "position": 0, "note": None, "name": "train"}
    return model, optimizer, schedule, loader


def train(model, optimizer, schedule, loader, steps):
    losses = []
    for _ in range(steps):
        at = loader["order"][loader["position"] % 10]
        loader["position"] += 1
        batch = torch.rand(8, 4) + at + random.random() + np.random.rand()
        loss = (model(batch) - batch.sum()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def state_of(model, optimizer, schedule, loader):
    return {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": loader,
            "random": cairn.torch.RandomStates()}


def went_on(directory, seed):
    parts = model_and_friends(seed)
    with cairn.torch.Manager(directory) as manager:
        train(*parts, steps=5)
        manager.save(5, state_of(*parts))
        whole = train(*parts, steps=5)
    again = model_and_friends(seed + 99)
    again[3]["order"] = [0] * 10
    with cairn.torch.Manager(directory) as manager:
        manager.restore_latest(state_of(*again))
        # The same into an optimizer that has made steps.
        used = model_and_friends(seed + 98)
        train(*used, steps=1)
        manager.restore_latest(state_of(*used))
        assert again[3]["order"] == list(range(10)) and again[3]["position"] == 5
        assert train(*used, steps=5) == whole
        manager.restore_latest(state_of(*again))
        assert train(*again, steps=5) == whole


def random_states_of_more(directory, savers):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    state = {"random": cairn.torch.RandomStates(), "mine": cairn.torch.per_rank(rank)}
    with cairn.torch.Manager(directory) as manager:
        if size == savers:
            manager.save(1, state)
            return
        torch.manual_seed(1000 + rank)
        report = manager.restore_latest(state)
        assert (len(report["kept_keys"]) > 0) == (size > savers), report
    expected = torch.Generator().manual_seed(rank if rank < savers else 1000 + rank)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=expected))


class States(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = made.name

    def manager(self):
        return cairn.torch.Manager(self.directory)

    def test_a_run_goes_on_with_the_same_losses(self):
        job(0, went_on, self.directory, 3)

    def test_random_states_on_more_and_fewer_ranks(self):
        for ranks in [2, 3, 1]:
            job(ranks, random_states_of_more, self.directory, 2)

    def test_kinds_of_values(self):
        shared = torch.arange(12.0).reshape(3, 4)
        state = {
            "strided": shared.t()[1:], "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3),
            "expanded": torch.ones(1).expand(4), "grad": torch.ones(2, requires_grad=True),
            "conj": torch.tensor([1 + 2j]).conj(), "none": None, "flag": True, "text": "zwölf",
            "numbers": [3, 1, 2], "pair": (0.5, 0.25), "mixed": (1, None, "a", [2.5]), "bytes": b"\0",
            7: {"int key": 1}, "nothing": [], "array": np.arange(3),
        }
        with self.manager() as manager:
            manager.save(1, state)
            new = {
                "strided": torch.zeros(4, 3).t()[:, 1:], "scalar": torch.tensor(0.0), "empty": torch.empty(0, 3), "expanded": torch.zeros(4),
                "grad": torch.zeros(2, requires_grad=True), "conj": torch.tensor([0j]),
                "none": None, "flag": False, "text": "", "numbers": [0, 0, 0], "pair": (0.0, 0.0),
                "mixed": (0, None, "", [0.0]), "bytes": b"", 7: {"int key": 0}, "nothing": [],
                "array": np.zeros(3, np.int64),
            }
            manager.restore_latest(new)
        for key, value in state.items():
            got = new[key]
            if isinstance(value, torch.Tensor):
                self.assertTrue(torch.equal(got, value.resolve_conj()), key)
            elif isinstance(value, np.ndarray):
                self.assertEqual(got.tolist(), value.tolist())
            else:
                self.assertEqual((type(got), got), (type(value), value), key)

    def test_tied_weights_are_saved_once(self):
        model = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4, False), "b": torch.nn.Linear(4, 4, False)})
        model["b"].weight = model["a"].weight
        with self.manager() as manager:
            manager.save(1, model.state_dict())
            self.assertEqual(list(cairn.open(self.directory)), ["a.weight"])
            before = model["a"].weight.clone()
            with torch.no_grad():
                model["a"].weight.zero_()
            manager.restore_latest({"model": model}["model"].state_dict())
        self.assertTrue(torch.equal(model["b"].weight, before))

    def test_tied_weights_and_a_checkpoint_where_they_were_not(self):
        tied = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4, False), "b": torch.nn.Linear(4, 4, False)})
        tied["b"].weight = tied["a"].weight
        with self.manager() as manager:
            manager.save(1, {"a.weight": torch.ones(4, 4), "b.weight": torch.ones(4, 4)})
            manager.save(2, {"a.weight": torch.ones(4, 4), "b.weight": torch.zeros(4, 4)})
            manager.restore(1, tied.state_dict())
            self.assertTrue(torch.equal(tied["b"].weight, torch.ones(4, 4)))
            self.refuses("invalid_argument", "'a.weight' and 'b.weight' are to be restored into the same memory",
                         manager.restore, 2, tied.state_dict())
            self.assertTrue(torch.equal(tied["b"].weight, torch.ones(4, 4)))

    def test_one_object_under_two_keys(self):
        def trained(steps):
            net = torch.nn.Linear(3, 3)
            optimizer = torch.optim.Adam(net.parameters())
            for _ in range(steps):
                net(torch.ones(2, 3)).sum().backward()
                optimizer.step()
            return net, optimizer

        def moments(net, optimizer):
            return optimizer.state[net.weight]["exp_avg"]

        net, optimizer = trained(1)
        numbers = [1, 2, 3]
        with self.manager() as manager:
            manager.save(1, {"a": net, "b": net, "o": optimizer, "p": optimizer, "d": {"x": 1.5, "l": numbers},
                             "e": {"x": 1.5, "l": numbers}, "l": numbers})
            manager.save(2, {"o": optimizer, "p": trained(0)[1], "d": {"x": 1}, "e": {"y": 1}})
            new, its, shared, same = *trained(0), {"l": []}, []
            shared["l"] = same
            manager.restore(1, {"a": new, "b": new, "o": its, "p": its, "d": shared, "e": shared, "l": same})
            self.assertTrue(torch.equal(new.weight, net.weight))
            self.assertTrue(torch.equal(moments(new, its), moments(net, optimizer)))
            self.assertEqual((shared, same), ({"x": 1.5, "l": numbers}, numbers))
            for one, other, state in [("o", "p", {"o": its, "p": its}), ("d", "e", {"d": shared, "e": shared})]:
                self.refuses("invalid_argument", f"'{one}' and '{other}' are to be restored into the same place",
                             manager.restore, 2, state)
            self.assertTrue(torch.equal(moments(new, its), moments(net, optimizer)))
            self.assertEqual(shared, {"x": 1.5, "l": numbers})

    def refuses(self, code, words, call, *arguments):
        with self.assertRaises(cairn.Error) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(words, str(caught.exception))

    def test_what_cannot_be_saved(self):
        resized = torch.ones(10)
        resized.untyped_storage().resize_(4)
        with self.manager() as manager:
            for step, (words, value) in enumerate([
                ("smaller", resized), ("meta", torch.empty(3, device="meta")),
                ("sparse", torch.eye(3).to_sparse()), ("bits8", torch.zeros(2, dtype=torch.uint8).view(torch.bits8)),
                ("lazy", torch.nn.LazyLinear(2)), ("function", [print]), ("terminal_size", os.terminal_size((1, 2))),
                ("object", object()),
                ("quantized", torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)),
            ]):
                with self.subTest(words):
                    self.refuses("invalid_argument", words, manager.save, step + 2, {"x": value})
            manager.save(1, {"x": torch.ones(4)})
            self.refuses("invalid_argument", "share memory", manager.restore, 1, {"x": torch.zeros(1).expand(4)})
        self.assertEqual(cairn.steps(self.directory), [1])

    def test_a_job_without_its_process_group(self):
        os.environ["WORLD_SIZE"] = "2"
        try:
            self.refuses("invalid_argument", "init_process_group", self.manager)
        finally:
            del os.environ["WORLD_SIZE"]


if __name__ == "__main__":
    unittest.main()
