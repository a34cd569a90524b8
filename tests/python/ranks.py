"""Each way to save of tests/support/combinations.txt, by the Python face on ranks of MPI: what some
ranks save, fewer and more of them restore, cut otherwise, bit for bit. So are the tensors of
tests/support/tensors.txt, those too that a program in another language has left.

mpiexec -n 4 python ranks.py DIRECTORY TABLES FORMATS [LEFT]
"""

import os
import sys

import cairn
import numpy as np
from mpi4py import MPI
from tensors import Table
from wrong_ranks import (a_migration_that_fails_on_one_rank, an_interrupt_on_one_rank, communicators,
                         others_run_while_ranks_wait, refuses, savers, what_one_rank_gives_wrongly,
                         what_one_rank_raises_by_hand)

world = MPI.COMM_WORLD
SHAPE = (23, 7)
DTYPES = ["float64", "float32", "float16", "complex64", "int8", "int64", "uint16", "bool"]


def ways(path, formats):
    """The ways that this build has: (name, asynchronous, options)."""
    with open(path) as table:
        lines = [line.split() for line in table if line.strip() and not line.startswith("#")]
    return [(name, how == "async", dict(one.split("=", 1) for one in options))
            for name, needs, how, *options in lines
            if "hdf5" in formats or "libhdf5" not in needs]


def values(dtype, shape, seed):
    """Any bits that the dtype allows."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng([seed, size]).integers(0, 256, size, np.uint8)
    return (raw % 2 if dtype == "bool" else raw).view(dtype).reshape(shape)


def part(size, comm):
    return size * comm.rank // comm.size, size * (comm.rank + 1) // comm.size


class Fields:
    """Tensors of the dtypes, cut into rows with a halo, into columns, into patches that ranks take
    in turn, or on one rank alone; replicas, numbers and texts."""

    def __init__(self, comm, seed, style):
        self.comm, self.seed, self.halos = comm, seed, {}
        self.state = {"group": {}, "whole": np.zeros(9, np.uint32), "step": 0, "rate": 0.0,
                      "name": "", "words": ["", "", ""]}
        for number, dtype in enumerate(DTYPES):
            self.state["group"][dtype] = self.cut(dtype, (number + style) % 4)

    def cut(self, dtype, how):
        comm = self.comm
        low, high = part(SHAPE[0], comm) if how == 0 else part(SHAPE[1], comm)
        if how == 0:
            halo = np.zeros((high - low + 2, SHAPE[1] + 3), dtype)
            self.halos[dtype] = halo
            return cairn.slice(halo[1:-1, 1:-2], SHAPE, (low, 0))
        if how == 1:
            columns = np.zeros((high - low, SHAPE[0]), dtype)
            return cairn.slice(columns.T[::-1], SHAPE, (0, low))  # turned, and from its end
        if how == 2:
            rows = [cairn.slice(np.zeros((1, SHAPE[1]), dtype), SHAPE, (row, 0))
                    for row in range(comm.rank, SHAPE[0], comm.size)]
            return cairn.patches(rows) if rows else cairn.nothing(dtype, SHAPE)
        if comm.rank == comm.size - 1:
            return cairn.slice(np.zeros(SHAPE, dtype), SHAPE, (0, 0))
        return cairn.nothing(dtype, SHAPE)

    def pieces(self):
        """Yields (dtype, this rank's array, its place)."""
        for dtype, value in self.state["group"].items():
            for one in getattr(value, "parts", [value] if hasattr(value, "array") else []):
                box = tuple(slice(at, at + size) for at, size in zip(one.start, one.array.shape))
                yield dtype, one.array, box

    def fill(self):
        for dtype, array, box in self.pieces():
            array[...] = values(dtype, SHAPE, self.seed)[box]
        self.state["whole"][:] = values("uint32", 9, self.seed)
        self.state.update(step=self.seed, rate=self.seed / 3, name=f"version {self.seed}",
                          words=["", "zwölf", "x" * (self.seed % 7 * 900)])
        return self

    def check(self, what):
        right = Fields(self.comm, self.seed, 0).fill().state
        for dtype, array, box in self.pieces():
            wanted = values(dtype, SHAPE, self.seed)[box]
            assert array.tobytes() == wanted.tobytes(), (what, dtype)
        for dtype, halo in self.halos.items():
            halo[1:-1, 1:-2] = 0
            assert not halo.view(np.uint8).any(), (what, dtype, "the halo was written")
        assert self.state["whole"].tobytes() == right["whole"].tobytes(), what
        for key in ["step", "rate", "name", "words"]:
            assert self.state[key] == right[key], (what, key)


def some(ranks):
    """A communicator of the first ranks; None on the others."""
    comm = world.Split(0 if world.rank < ranks else MPI.UNDEFINED, world.rank)
    return comm if comm != MPI.COMM_NULL else None


def save(comm, directory, asynchronous, options):
    with cairn.CheckpointManager(directory, comm, **options) as manager:
        for step in [11, 12]:
            fields = Fields(comm, step, step).fill()
            if asynchronous:
                handle = manager.save_async(step, fields.state)
                for _, array, _ in fields.pieces():
                    array[...] = 0  # the copy is made
                manager.wait()
                assert handle.committed, (handle.stage, str(handle.error))
            else:
                manager.save(step, fields.state)


def restore(comm, directory, step):
    fields = Fields(comm, step, 1)
    with cairn.CheckpointManager(directory, comm, read_only=True) as manager:
        report = manager.restore_latest(fields.state)
        assert report["step"] == step and not report["unchecked"], report
    fields.check((directory, step, comm.size))


def look(directory, steps):
    """Looks at the checkpoints later, without MPI."""
    assert cairn.steps(directory) == steps, cairn.steps(directory)
    for step in steps:
        opened = cairn.open(os.path.join(directory, f"ckpt-{step}"))
        for dtype in DTYPES:
            wanted = values(dtype, SHAPE, step)
            assert opened[f"group/{dtype}"][...].tobytes() == wanted.tobytes(), (step, dtype)
            assert opened[f"group/{dtype}"][3:9, ::2].tobytes() == wanted[3:9, ::2].tobytes()
        assert opened["name"][()] == f"version {step}".encode()


def damage(directory, step):
    """Flips a bit of the data. The older checkpoint is then restored."""
    opened = cairn.open(os.path.join(directory, f"ckpt-{step}"))
    _, _, number, offset, size = opened["group/float64"].slices[0]
    data = opened.prefix + ".h5"
    if opened.format == "bundle":
        data = next(os.path.join(directory, name) for name in os.listdir(directory)
                    if name.startswith(f"ckpt-{step}.data-{number:05d}-of-"))
    with open(data, "r+b") as file:
        file.seek(offset + size // 2)
        byte = file.read(1)[0]
        file.seek(offset + size // 2)
        file.write(bytes([byte ^ 4]))


def rows(comm, fill):
    """Rank r has r + 2 ragged rows, ids that are dealt in turn, a part of a tensor with gaps, and
    a value of its own."""
    ids = np.arange(comm.rank, 11, comm.size)
    low, high = part(4, comm)
    return {
        "ragged": cairn.ragged(np.full((comm.rank + 2, 2), comm.rank) if fill else np.zeros((0, 2), int),
                               deal=None if fill else lambda total, rank, ranks: total if rank == 1 else 0),
        "by_id": cairn.indexed(ids * 1.5 if fill else np.zeros(len(ids)), ids),
        "gaps": cairn.sparse(cairn.slice(np.full(high - low, 2.0) if fill else np.zeros(high - low),
                                         (4,) if not fill else (6,), (low,)), -1.0),
        "mine": cairn.private(np.array([comm.rank]), optional=True),
        "log": cairn.resizable(["one", "two"] if fill else []),
    }


def rows_of_all_kinds(savers, restorers, directory):
    if savers:
        with cairn.CheckpointManager(directory, savers) as manager:
            manager.save(1, rows(savers, True))
    world.Barrier()
    for comm in restorers:
        if comm:
            with cairn.CheckpointManager(directory, comm) as manager:
                new = rows(comm, False)
                new["gaps"] = cairn.sparse(cairn.slice(np.zeros(6), (6,), (0,)), -1.0)
                manager.restore_latest(new)
            right = np.repeat([[0], [1], [2]], [2, 3, 4], 0).repeat(2, 1)
            got = new["ragged"].array
            assert got.tolist() == (right.tolist() if comm.rank == 1 else []), got
            assert new["by_id"].array.tolist() == (new["by_id"].ids * 1.5).tolist()
            assert new["gaps"].value.array.tolist() == [2, 2, 2, 2, -1, -1]
            assert new["mine"].array.tolist() == [comm.rank]
            assert new["log"].value == ["one", "two"]
            refuses("application", "ragged", manager_raises, comm, directory)
        world.Barrier()


def manager_raises(comm, directory):
    """A function that raises on one rank only."""
    def deal(total, rank, ranks):
        if comm.rank == 0:
            raise ValueError("no rows for me")
        return total if rank == 1 else 0

    with cairn.CheckpointManager(directory, comm) as manager:
        manager.restore_latest({"ragged": cairn.ragged(np.zeros((0, 2), int), deal=deal)})


def save_tensors(comm, directory, asynchronous, options):
    with cairn.CheckpointManager(directory, comm, **options) as manager:
        state = tensors.state(comm, 4)
        if asynchronous:
            manager.save_async(4, state)
            del state
            manager.wait()
        else:
            manager.save(4, state)


def restore_tensors(comm, directory):
    with cairn.CheckpointManager(directory, comm, read_only=True) as manager:
        state = tensors.wanted(comm)
        assert manager.restore_latest(state)["unused_keys"] == []
    tensors.check(state, comm, 4)


directory, tables, formats, *left = sys.argv[1:5]
groups = [some(3), some(2), some(4)]
known = ways(os.path.join(tables, "combinations.txt"), formats.split(","))
tensors = Table(os.path.join(tables, "tensors.txt"))
for name, asynchronous, options in known:
    here = os.path.join(directory, name)
    options["write.chunk_bytes"] = 4096
    if groups[0]:
        save(groups[0], here, asynchronous, options)
        save_tensors(groups[0], here + ".tensors", asynchronous, options)
    world.Barrier()
    if world.rank == 0:
        look(here, [11, 12])
    for comm in groups[1:]:
        if comm:
            restore(comm, here, 12)
            for one in [here + ".tensors", *(f"{folder}/{name}" for folder in left)]:
                restore_tensors(comm, one)
        world.Barrier()
    if world.rank == 0:
        damage(here, 12)
        tensors.look(cairn.open(here + ".tensors"), 4)
    world.Barrier()
    restore(groups[2], here, 11)
if groups[0]:
    what_one_rank_gives_wrongly(groups[0], os.path.join(directory, "wrong"))
    what_one_rank_raises_by_hand(groups[0], os.path.join(directory, "by_hand"))
    communicators(groups[0], os.path.join(directory, "communicators"))
    savers(groups[0], os.path.join(directory, "savers"))
    a_migration_that_fails_on_one_rank(groups[0], os.path.join(directory, "migration"))
    an_interrupt_on_one_rank(groups[0], os.path.join(directory, "interrupt"))
    if MPI.Query_thread() == MPI.THREAD_MULTIPLE:
        others_run_while_ranks_wait(groups[0], os.path.join(directory, "lock"))
rows_of_all_kinds(groups[0], groups[1:], os.path.join(directory, "rows"))
if groups[0]:  # the interpreter ends with a save in flight: the next job completes it (stories.py)
    left = cairn.CheckpointManager(os.path.join(directory, "left"), groups[0])
    left.save_async(5, Fields(groups[0], 5, 1).fill().state)
if world.rank == 0:
    print(f"the Python face works on many ranks in {len(known)} ways")
