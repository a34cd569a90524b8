"""Tensors of devices. Where there is none, those of the host are taken for such, and their elements go
the way that a device's do. CAIRN_TEST_DEVICE=cuda: those of that one."""

import ctypes
import os
import tempfile
import unittest

from torch_jobs import job  # first: it sets what torch reads when it is imported

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import cairn
import cairn.torch
from cairn.torch import devices

DEVICE = os.environ.get("CAIRN_TEST_DEVICE", "cpu")
DTYPES = [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int64,
          torch.float8_e4m3fn]


def values(shape, dtype=torch.float32, seed=1):
    numbers = torch.randint(-100, 100, shape, generator=torch.Generator().manual_seed(seed))
    made = numbers > 0 if dtype == torch.bool else numbers.to(torch.float32).to(dtype)
    return made.to(DEVICE)


def bits(tensor):
    return tensor.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy().tobytes()


def tensors():
    made = {f"{number}": values((5, 7, 2), dtype) for number, dtype in enumerate(DTYPES)}
    made["transposed"] = values((40, 30)).t()
    made["gaps"] = values((9, 9))[1:-1:2, 2:7]
    made["scalar"], made["nothing"] = (
        torch.tensor(3.5, device=DEVICE), torch.empty(0, 4, device=DEVICE))
    made["parameter"] = torch.nn.Parameter(values((6, 3)))
    return made


class Copies:
    """Tensors of the host are taken for a device's."""

    def __enter__(self):
        self._was = devices.is_elsewhere
        if DEVICE == "cpu":
            devices.is_elsewhere = lambda tensor: True

    def __exit__(self, *_):
        devices.is_elsewhere = self._was


def by_manager(place):
    given = tensors()
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
    """A state that is looked through again finds the tensors that lie there now."""
    with Copies(), cairn.torch.Manager(place) as manager:
        for step in (1, 2, 3):
            weight = values((8, 3), seed=step)
            manager.save(step, {"w": weight, "tied": weight})
        same = values((8, 3), seed=4)
        manager.save(4, {"w": same, "tied": same})
        manager.save(5, {"w": same.view(8, 3), "tied": same.view(8, 3)})
        for step in range(1, 6):
            into = {"w": torch.zeros(8, 3, device=DEVICE)}
            into["tied"] = into["w"]
            manager.restore(step, into)
            assert torch.equal(into["w"], values((8, 3), seed=min(step, 4)))


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
    """As where the device's memory is full, or the device is lost."""
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


def cut(full, mesh, placement):
    """This rank's part, without a message."""
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


class Devices(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name

    def test_a_manager_saves_and_restores_them(self):
        job(0, by_manager, self.place)

    def test_others_of_the_same_form(self):
        job(0, others_of_the_same_form, self.place)

    def test_elements_that_share_memory_are_refused(self):
        job(0, refused, self.place)

    def test_a_copy_that_fails(self):
        job(2, fails_on_one, self.place)

    def test_on_meshes(self):
        for ranks in (1, 2):
            job(ranks, on_meshes, f"{self.place}/{ranks}")

    def test_strided_parts_go_in_pieces(self):
        whole = values((64, 48)).cpu()
        was, devices.STRIDED_BYTES = devices.STRIDED_BYTES, 1000
        self.addCleanup(setattr, devices, "STRIDED_BYTES", was)
        for tensor, start, extent in [(whole.t(), (3, 5), (40, 50)), (whole, (0, 1), (64, 40)),
                                      (whole.view(64, 48)[:1, ::2], (0, 2), (1, 20))]:
            memory = (ctypes.c_char * (4 * extent[0] * extent[1] + 1))()
            address = ctypes.addressof(memory) + 1
            devices.to_host(tensor, start, extent, address)
            part = tensor[start[0]:start[0] + extent[0], start[1]:start[1] + extent[1]]
            self.assertEqual(memory.raw[1:], bits(part))
            into = torch.zeros_like(tensor)
            devices.to_device(into, start, extent, address)
            self.assertEqual(bits(into[start[0]:start[0] + extent[0], start[1]:start[1] + extent[1]]),
                             bits(part))
            self.assertEqual(into.count_nonzero(), part.count_nonzero())


if __name__ == "__main__":
    unittest.main()
