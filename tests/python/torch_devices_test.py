"""Tensors of devices. Where there is none, those of the host are taken for such, and their elements go
the way that a device's do. CAIRN_TEST_DEVICE=cuda: those of that one. An argument is the path of a double
of CUDA's driver."""

import ctypes
import os
import sys
import tempfile
import unittest

from torch_jobs import job  # first: it sets what torch reads when it is imported
from torch_cases import Loads

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import cairn
import cairn.torch
from cairn.torch import devices, tensors

DEVICE = os.environ.get("CAIRN_TEST_DEVICE", "cpu")
DOUBLE = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].endswith(".so.1") else None
DTYPES = [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int64,
          torch.float8_e4m3fn]


def values(shape, dtype=torch.float32, seed=1):
    numbers = torch.randint(-100, 100, shape, generator=torch.Generator().manual_seed(seed))
    made = numbers > 0 if dtype == torch.bool else numbers.to(torch.float32).to(dtype)
    return made.to(DEVICE)


def bits(tensor):
    return tensor.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy().tobytes()


def all_kinds():
    made = {f"{number}": values((5, 7, 2), dtype) for number, dtype in enumerate(DTYPES)}
    made["transposed"] = values((40, 30)).t()
    made["gaps"] = values((9, 9))[1:-1:2, 2:7]
    made["scalar"], made["nothing"] = (
        torch.tensor(3.5, device=DEVICE), torch.empty(0, 4, device=DEVICE))
    made["parameter"] = torch.nn.Parameter(values((6, 3)))
    return made


class Copies:
    """Makes tensors of the host count as a device's."""

    def __enter__(self):
        self._was = devices.is_elsewhere
        if DEVICE == "cpu":
            devices.is_elsewhere = lambda tensor: True

    def __exit__(self, *_):
        devices.is_elsewhere = self._was


def by_manager(place):
    given = all_kinds()
    expected = {key: bits(one) for key, one in given.items()}
    with Copies(), cairn.torch.Manager(place) as manager:
        manager.save(1, given)
        handle = manager.save_async(2, given)
        for one in given.values():  # what is saved was copied
            one.detach().zero_()
        manager.wait()
        assert handle.committed
        for step in (1, 2):
            into = {key: torch.zeros_like(one) for key, one in given.items()}
            into["transposed"] = torch.zeros(40, 30, device=DEVICE).t()
            manager.restore(step, into)
            assert {key: bits(one) for key, one in into.items()} == expected
    with cairn.torch.Manager(place) as manager:  # on the host
        into = {key: torch.zeros_like(one, device="cpu") for key, one in given.items()}
        manager.restore(1, into)
        assert {key: bits(one) for key, one in into.items()} == expected


def others_of_the_same_form(place):
    """A state that is looked through again finds the tensors that are there at that moment."""
    with Copies(), cairn.torch.Manager(place) as manager:
        for step in (1, 2, 3):
            weight = values((8, 3), seed=step)
            manager.save(step, {"w": weight, "tied": weight})
        same = values((8, 3), seed=4)
        # Other objects share the memory of the first ones, which are gone, and others take their
        # place.
        manager.save(4, {"w": same.view(8, 3), "tied": same.view(8, 3)})
        others = [torch.full((8, 3), -1.0, device=DEVICE) for _ in range(9)]
        manager.save(5, {"w": same.view(8, 3), "tied": same.view(8, 3)})
        assert len(others) == 9
        for step in range(1, 6):
            into = {"w": torch.zeros(8, 3, device=DEVICE)}
            into["tied"] = into["w"]
            manager.restore(step, into)
            assert torch.equal(into["w"], values((8, 3), seed=min(step, 4)))


def what_an_optimizer_has(place):
    """The optimizer is restored to its device, even into one that has made no step."""
    def made(steps):
        torch.manual_seed(1)
        model = torch.nn.Linear(4, 3).to(DEVICE)
        optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1))
        for _ in range(steps):
            model(torch.ones(2, 4, device=DEVICE)).sum().backward()
            optimizer.step()
        return model, optimizer

    def seen(optimizer):
        return [(key, one.device.type, bits(one)) for moments in optimizer.state_dict()["state"].values()
                for key, one in moments.items()]

    with Copies(), cairn.torch.Manager(place) as manager:
        model, optimizer = made(steps=2)
        held = {"there": values((5, 3)), "here": torch.ones(2), "list": [values((2,), torch.bfloat16)]}
        manager.save(1, {"model": model, "optimizer": optimizer, "held": Loads(held)})
        for steps in (0, 1):
            again, fresh, into = *made(steps), Loads({})
            manager.restore(1, {"model": again, "optimizer": fresh, "held": into})
            assert seen(fresh) == seen(optimizer) != []
            assert bits(again.weight) == bits(model.weight)
            for got, one in ((into.state["there"], held["there"]), (into.state["here"], held["here"]),
                             (into.state["list"][0], held["list"][0])):
                assert (bits(got), got.device.type, got.dtype) == (bits(one), one.device.type, one.dtype)


class Strided(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(values((900, 400), seed=8).t())


def trained(kind, seed):
    torch.manual_seed(seed)
    model = kind().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    sum(one.square().sum() for one in model.parameters()).backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer}


def all_bits(state):
    moments = [one for its in state["optimizer"].state.values() for one in its.values()]
    return [bits(one) for one in [*state["model"].parameters(), *moments]]


def spoil(state):
    with torch.no_grad():
        for one in state["model"].parameters():
            one.zero_()


def left_until_released(place, double):
    """Another thread reads the tensors by the driver, also while the next save looks at other ones."""
    driver = ctypes.CDLL(double, ctypes.RTLD_GLOBAL) if DEVICE == "cpu" else None
    states = [trained(lambda: torch.nn.Linear(900, 400), seed) for seed in (1, 2)]
    right = [all_bits(one) for one in states]
    with Copies(), cairn.torch.Manager(place, max_to_keep=0) as manager:
        for step in range(1, 9):
            handle = manager.save_async(step, states[step % 2], until="released")
            assert handle.blocked_because == "", handle.blocked_because
            if step > 4:  # else they stay as they are
                handle.release()
                spoil(states[step % 2])
                manager.wait()
                manager.restore(step, states[step % 2])
        manager.wait()
        for step in range(1, 9):
            into = states[0]
            spoil(into)
            manager.restore(step, into)
            assert all_bits(into) == right[step % 2], step
        if driver:
            assert driver.cuda_copies() > 0 and driver.cuda_depth() == 0
        strided = trained(Strided, 1)
        handle = manager.save_async(9, strided, until="released")
        assert "'model/weight' and others are copied at the call" in handle.blocked_because
        expected = all_bits(strided)
        spoil(strided)
        manager.wait()
        manager.restore(9, strided)
        assert all_bits(strided) == expected


def refused(place):
    with Copies(), cairn.torch.Manager(place) as manager:
        manager.save(1, {"w": torch.ones(4, 2, device=DEVICE)})
        try:
            manager.restore(1, {"w": torch.ones(4, 1, device=DEVICE).expand(4, 2)})
        except cairn.Error as error:
            assert "share memory" in str(error), error
        else:
            raise AssertionError("elements that share memory were filled")


def fails_on_one(place):
    """As if the device's memory is full, or the device is lost."""
    state = {"w": values((64, 8), seed=3), "mine": cairn.torch.per_rank(torch.ones(5))}
    pieces = devices._pieces

    def fails(*_):
        raise RuntimeError("the device is lost")

    with Copies(), cairn.torch.Manager(place) as manager:
        manager.save(1, state)
        for save in (manager.save, manager.save_async):
            if dist.get_rank() == 1:
                devices._pieces = fails
            try:
                save(2, state)
                manager.wait()
            except cairn.Error as error:
                assert "the device is lost" in str(error) and error.tensor, error
            else:
                raise AssertionError("a device was lost and nobody said so")
            finally:
                devices._pieces = pieces
            assert [one["step"] for one in manager.steps()] == [1]
        into = {"w": torch.zeros(64, 8, device=DEVICE), "mine": cairn.torch.per_rank(torch.zeros(5))}
        if dist.get_rank() == 1:
            devices._pieces = fails
        try:
            manager.restore(1, into)
        except cairn.Error as error:
            assert "the device is lost" in str(error), error
        else:
            raise AssertionError("a device was lost and nobody said so")
        finally:
            devices._pieces = pieces
        manager.restore(1, into)
        assert torch.equal(into["w"], state["w"]) and torch.equal(into["mine"].value, torch.ones(5))


def in_other_modes(place):
    """Modes that the application has switched on make no difference."""
    def target(dtype):
        with torch.inference_mode():
            return {"w": torch.zeros(4, 2, dtype=dtype, device=DEVICE)}

    full = values((4, 2))
    cairn.torch.Manager(f"{place}/m").save(1, {"w": full})
    writer = cairn.torch.StorageWriter(f"{place}/w")
    dcp.save({"w": full, "n": 3}, checkpoint_id="1", storage_writer=writer)
    reader = cairn.torch.StorageReader(f"{place}/w/ckpt-1")
    with Copies(), cairn.torch.Manager(f"{place}/m") as manager:
        into = target(torch.float32)
        manager.restore(1, into)
        assert torch.equal(into["w"], full)
    for dtype in (torch.float32, torch.float64):
        with Copies():
            into = target(dtype)
            dcp.load(into, storage_reader=reader)
        assert torch.equal(into["w"], full.to(dtype))
    into = {"w": torch.zeros(4, 2, dtype=torch.float64, device=DEVICE), "n": 0}
    with torch.device("meta"):
        dcp.load(into, storage_reader=reader)
    assert torch.equal(into["w"], full.double()) and into["n"] == 3


def became_meta(place):
    """Tensors without an address would all look like the same tensor."""
    def state(device):
        return {key: torch.ones(4, device=device) for key in "ab"}

    with Copies(), cairn.torch.Manager(place) as manager:
        for given in (state("meta"), state(DEVICE), state("meta")):
            try:
                manager.save(1, given)
            except cairn.Error as error:
                assert "meta device" in str(error), error
            else:
                assert given["a"].device.type == DEVICE


class NoAddresses:
    def elsewhere(self, tensor):
        return None


def without_addresses(place):
    """Some devices tell no addresses: then the elements are copied to the host and back."""
    state, into = {"w": values((40, 3), seed=7)}, {"w": torch.zeros(40, 3, device=DEVICE)}
    there = [one["w"].untyped_storage().data_ptr() for one in (state, into)]
    writer = cairn.torch.StorageWriter(place)
    devices.is_elsewhere = lambda tensor: tensor.untyped_storage().data_ptr() in there
    torch.Tensor.cpu = torch.Tensor.clone
    tensors.TENSORS = NoAddresses()
    dcp.save(state, checkpoint_id="1", storage_writer=writer)
    dcp.load(into, storage_reader=cairn.torch.StorageReader(f"{place}/ckpt-1"))
    assert torch.equal(into["w"], state["w"])


class Runtime:
    """A CUDA that cannot pin memory, or is interrupted."""

    def __init__(self, answer):
        self.asked, self.pinned, self.unpinned, self.answer = [], set(), 0, answer

    def cudaHostRegister(self, address, size, flags):
        self.asked.append(address)
        if self.answer is None:
            raise KeyboardInterrupt
        if self.answer == 0:
            self.pinned.add(address)
        return self.answer

    def cudaHostUnregister(self, address):
        self.pinned.remove(address)
        self.unpinned += 1
        return 0


def memory_is_pinned(place):
    states = [{"w": torch.ones(size, dtype=torch.uint8)} for size in (1000, 3 << 20, 7 << 20)]
    devices._forget_failure = lambda: forgotten.append(True)
    for answer, times in ((0, len(states)), (2, 0)):
        runtime, forgotten = Runtime(answer), []
        torch.cuda.cudart = lambda: runtime
        with Copies(), cairn.torch.Manager(f"{place}/{answer}") as manager:
            for step, state in enumerate(states):
                manager.save_async(step, state)
                manager.wait()
                assert len(runtime.pinned) == (answer == 0)
        assert runtime.unpinned == times and not runtime.pinned
        assert len(forgotten) == len(states) - times
    runtime = Runtime(None)
    with Copies(), cairn.torch.Manager(f"{place}/interrupted") as manager:
        for _ in range(3):
            try:
                manager.save_async(1, states[-1])
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("the interrupt is lost")
        assert len(set(runtime.asked)) < len(runtime.asked), "what was taken was never given back"
        runtime.answer = 0
        manager.save_async(1, states[-1])
        manager.wait()


def cut(full, mesh, placement):
    """This rank's part, computed without messages."""
    local = full.clone()
    if placement.is_shard():
        ranks, rank = mesh.size(), mesh.get_local_rank()
        each = -(-full.shape[placement.dim] // ranks)
        local = full.split(each, placement.dim)[rank].clone()
    return DTensor.from_local(local, mesh, [placement], run_check=False, shape=full.shape,
                              stride=full.stride())


def on_meshes(place):
    full = values((12, 10), seed=9)
    mesh = init_device_mesh(DEVICE, (dist.get_world_size(),))
    with Copies():
        writer = cairn.torch.StorageWriter(place, max_to_keep=0)
        for step, placement in enumerate([Shard(0), Shard(1), Replicate()], 1):
            state = {"w": cut(full, mesh, placement), "step": step}
            dcp.save(state, checkpoint_id=str(step), storage_writer=writer)
        handle = writer.manager.save_async(4, {"w": cut(full, mesh, Shard(1))})
        writer.manager.wait()
        assert handle.committed
        for step in (1, 2, 3, 4):
            placement = Shard(step % 2)
            into = {"w": cut(torch.zeros_like(full), mesh, placement)}
            if step < 4:
                dcp.load(into, storage_reader=cairn.torch.StorageReader(f"{place}/ckpt-{step}"))
            else:
                writer.manager.restore(step, into)
            expected = cut(full, mesh, placement)
            assert torch.equal(into["w"].to_local(), expected.to_local()), step
        writer.manager.close()


# In a job of their own: once a process has used CUDA, its forks cannot use it.
def pieces_are_small():
    devices.STRIDED_BYTES = 1000
    whole = values((400, 3, 2)).permute(2, 0, 1)
    memory = (ctypes.c_char * (4 * whole.numel()))()
    pieces = list(devices._pieces(whole, (0, 0, 0), whole.shape, ctypes.addressof(memory)))
    assert max(part.numel() * 4 for part, _ in pieces) <= 1000
    devices.to_host(whole, (0, 0, 0), whole.shape, ctypes.addressof(memory))
    assert memory.raw == bits(whole)


def strided_parts():
    devices.STRIDED_BYTES = 1000
    whole = values((64, 48))
    for tensor, start, extent in [(whole.t(), (3, 5), (40, 50)), (whole, (0, 1), (64, 40)),
                                  (whole.view(64, 48)[:1, ::2], (0, 2), (1, 20))]:
        memory = (ctypes.c_char * (4 * extent[0] * extent[1] + 1))()
        address = ctypes.addressof(memory) + 1
        devices.to_host(tensor, start, extent, address)
        part = tensor[start[0]:start[0] + extent[0], start[1]:start[1] + extent[1]]
        assert memory.raw[1:] == bits(part)
        into = torch.zeros_like(tensor)
        devices.to_device(into, start, extent, address)
        filled = into[start[0]:start[0] + extent[0], start[1]:start[1] + extent[1]]
        assert bits(filled) == bits(part)
        assert into.count_nonzero() == part.count_nonzero()


class Devices(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name

    def test_a_manager_saves_and_restores_them(self):
        job(0, by_manager, self.place)

    def test_what_an_optimizer_has(self):
        job(0, what_an_optimizer_has, self.place)

    def test_others_of_the_same_form(self):
        job(0, others_of_the_same_form, self.place)

    def test_elements_that_share_memory_are_refused(self):
        job(0, refused, self.place)

    def test_modes_of_the_application(self):
        job(0, in_other_modes, self.place)

    def test_tensors_that_are_on_the_meta_device_now(self):
        job(0, became_meta, self.place)

    @unittest.skipIf(DEVICE != "cpu", "its tensors have addresses")
    def test_a_device_without_addresses(self):
        job(0, without_addresses, self.place)

    @unittest.skipIf(DEVICE != "cpu", "stands in for the device's runtime")
    def test_pinned_memory(self):
        job(0, memory_is_pinned, self.place)

    @unittest.skipUnless(DOUBLE or DEVICE != "cpu", "the double was not given")
    def test_left_until_released(self):
        job(0, left_until_released, self.place, DOUBLE)

    def test_a_copy_that_fails(self):
        job(2, fails_on_one, self.place)

    def test_on_meshes(self):
        for ranks in (1, 2):
            job(ranks, on_meshes, f"{self.place}/{ranks}")

    def test_pieces_of_strided_parts_are_small(self):
        job(0, pieces_are_small)

    def test_strided_parts_go_in_pieces(self):
        job(0, strided_parts)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
