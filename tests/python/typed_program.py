"""What a user's program may write; it is for type checkers and never run."""

import jax
import numpy as np
import torch
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from numpy.typing import NDArray

import cairn
import cairn.jax
import cairn.torch


def ones(n: int) -> NDArray[np.float64]:
    return np.ones(n)


def announce(step: int) -> None:
    print(step)


def migrate(saved_by: cairn.Application, how: cairn.Migration) -> None:
    if cairn.is_newer_version("2.0", saved_by.version):
        how.options["rename"]["kelvin"] = "celsius"
        how.extra["old"] = ones(2)
        how.finish = lambda: print(how.state["kelvin"])


def saved(directory: str) -> None:
    u = ones(8)
    state: dict[str, object] = {
        "u": cairn.described(cairn.slice(u[1:-1], (6,), (0,)), units="K", dimensions=["x"]),
        "rows": cairn.ragged(u), "more": cairn.resizable(u), "mine": cairn.private(u, optional=True),
        "by id": cairn.indexed(u, np.arange(8)), "gaps": cairn.sparse(cairn.slice(u, 9, 1), 0.0),
        "parts": cairn.patches([cairn.slice(u, 16, 0)]), "none": cairn.nothing("float64", 3), "step": 0}
    with cairn.CheckpointManager(directory, max_to_keep=3, stop=True, when={"interval": {"steps": 20}},
                                 store={"policy": cairn.PerDevicePolicy(cairn.MaxShardSizePolicy(1 << 20))},
                                 hooks={"before_save": [announce], "migrate": migrate}) as manager:
        report = manager.restore_latest(state, types=[np.ndarray])
        step: int = report["step"] if report is not None else 0
        if manager.should_save(step):
            prefix: str = manager.save(step, state)
            print(prefix)
        handle: cairn.SaveHandle = manager.save_async(step + 1, state)
        handle.wait_written()
        if handle.error is not None:
            print(handle.error.code, handle.error.way_out)
        reason = manager.should_stop()
        if reason:
            print(reason[0], reason[1])
        manager.wait()
        print([one["step"] for one in manager.steps()], manager.statistics())


def policy(tensors: list[cairn.ShardableTensor]) -> list[list[cairn.ShardableTensor]]:
    return [[one.piece(one.start, one.extent)] for one in tensors]


def read(path: str) -> dict[str, NDArray[np.float64]]:
    checkpoint = cairn.open(path)
    for key, tensor in checkpoint.items():
        print(f"{key}: {tensor.dtype_name} {tensor.shape} {tensor.units} {np.asarray(tensor).sum()}")
    try:
        return {key: checkpoint[key][10:20] for key in checkpoint}
    except cairn.Error as error:
        raise SystemExit(f"{error.problem}: {error.path}") from error


def tools(directory: str) -> list[int]:
    with cairn.BundleWriter(directory + "/w") as writer:
        writer.add("w", ones(2))
    cairn.merge([directory + "/w"], directory + "/all", overwrite=True)
    cairn.set_log(lambda level, text: None)
    cairn.restore_hdf5("a.h5", {"u": ones(2)})
    print(cairn.Saver("mine", lambda place: [], lambda place: None).name, cairn.__version__, cairn.has_mpi)
    data = cairn.Cursor(10, shuffle=False)
    batch = data.take(3)
    data.done(batch)
    print(batch.samples.sum(), batch.epoch, data.left + data.batches(2), next(iter(data)))
    return cairn.steps(directory)


def trained(directory: str) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    state: dict[str, object] = {
        "model": model, "optimizer": cairn.torch.by_name(optimizer, model), "losses": list[float](),
        "random": cairn.torch.RandomStates(), "rank": cairn.torch.per_rank({"seen": 3}), "step": 0}
    data = cairn.torch.Cursor(10, seed=3)
    state["data"] = data
    manager = cairn.torch.Manager(directory, max_to_keep=3)
    manager.restore_latest(state)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(10)), sampler=data)
    for one in data.over(loader, even=True):
        print(one[0] if one is not None else "no sample", data.epoch, len(data))
    manager.save_async(1, state)
    manager.close()
    seen: int = cairn.torch.per_rank(3).value
    print(seen, cairn.torch.group().size)
    writer = cairn.torch.StorageWriter(directory, max_to_keep=3)
    save({"model": model}, checkpoint_id=f"{directory}/ckpt-1", storage_writer=writer)
    load({"model": model}, storage_reader=cairn.torch.StorageReader(directory))


def arrays(directory: str) -> jax.Array:
    state = {"params": {"w": jax.numpy.zeros(3)}, "key": jax.random.key(1), "step": 0}
    with cairn.jax.Manager(directory) as manager:
        manager.restore_latest(state)
        manager.save(1, state)
    return jax.numpy.zeros(3)
