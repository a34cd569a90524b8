"""Mistakes of one rank: all ranks get the same error, and none waits for ever."""

import sys
import threading

import cairn
import numpy as np
from mpi4py import MPI


def refuses(code, tensor, call, *given, **named):
    try:
        call(*given, **named)
    except cairn.Error as error:
        assert error.code == code and error.tensor == tensor, error
        return error
    raise SystemExit(f"no error {code}")


def what_one_rank_gives_wrongly(comm, directory):
    full = {"weights": np.arange(5.0), "words": ["one", ""]}
    second = comm.rank == 1
    objects = np.array([None]) if second else ["", ""]
    masked = np.ma.masked_array(np.zeros(5), True) if second else np.zeros(5)
    with cairn.CheckpointManager(directory, comm) as manager:
        refuses("disagreement", "weights", manager.save, 1, dict(full, weights=np.arange(5.0) + second))
        assert refuses("invalid_argument", "words", manager.save, 2, dict(full, words=objects)).rank == 1
        assert refuses("invalid_argument", "weights", manager.save, 2, dict(full, weights=masked)).rank == 1
        named = {"metrik": 1} if second else {}
        assert "metric" in str(refuses("invalid_argument", "", manager.save, 3, full, **named))
        manager.save(4, full)
        wrong = dict(full, weights=np.zeros(5, "f4" if second else "f8"))
        assert "float32" in str(refuses("invalid_argument", "weights", manager.restore, 4, wrong))
        for call in [manager.save, manager.save_async, manager.restore]:
            assert "str" in str(refuses("invalid_argument", "", call, "7" if second else 7, full))
        for call in [manager.pin, manager.unpin, manager.open]:
            # A rank without a step is not in such a call, and the others are told that.
            try:
                call(None if second else 4)
            except cairn.Error as error:
                assert error.code in ("invalid_argument", "disagreement"), error
            else:
                raise SystemExit("no error")
        try:
            manager.mark(4, "odd" if second else "good")
        except cairn.Error as error:
            assert error.code in ("invalid_argument", "disagreement"), error
        else:
            raise SystemExit("no error")
        assert manager.steps()[-1]["step"] == 4
    assert refuses("invalid_argument", "words", cairn.restore_hdf5, directory + ".h5",
                   {"words": objects}, comm).rank == 1
    for given in [(None if second else directory,), (directory, comm)]:
        stop = {} if len(given) == 1 else {"stop": 7 if second else None}
        error = refuses("invalid_argument", "", cairn.CheckpointManager, given[0], comm, **stop)
        assert error.rank == 1, error


def what_one_rank_raises_by_hand(comm, directory):
    """An error that lacks fields, or whose text cannot be had, and one after the bytes are there."""
    incomplete = cairn.Error("made by hand")
    incomplete.way_out = "none"

    class Raises(dict):
        def items(self):
            if comm.rank == 1:
                raise raised
            return super().items()

        def __setitem__(self, *given):
            if comm.rank == 1:
                raise raised
            super().__setitem__(*given)

    with cairn.CheckpointManager(directory, comm) as manager:
        for raised, words in [(incomplete, "made by hand"), (ValueError("\ud800"), "ValueError")]:
            error = refuses("application", "", manager.save, 1, Raises(x=1))
            assert error.rank == 1 and words in str(error), error
        raised = KeyError("x")
        manager.save(1, {"inner": {"x": 1}})
        Raises.items = dict.items
        assert refuses("application", "", manager.restore, 1, {"inner": Raises(x=1)}).rank == 1
        assert manager.steps()[-1]["step"] == 1


def communicators(comm, directory):
    full = {"weights": np.arange(5.0)}
    freed = comm.Dup()
    freed.Free()
    halves = comm.Split(comm.rank % 2)
    between = halves.Create_intercomm(0, comm, 1 - comm.rank % 2)
    for wrong in [freed, MPI.COMM_NULL, between]:
        refuses("invalid_argument", "", cairn.CheckpointManager, directory, wrong)
    # A communicator is freed while a manager uses it: the manager has its own copy.
    mine = comm.Dup()
    with cairn.CheckpointManager(directory, mine) as manager:
        mine.Free()
        manager.save(5, full)
        assert manager.restore_latest(dict(full))["step"] == 5


def an_interrupt_on_one_rank(comm, directory):
    def before(step):
        if step == 1 and comm.rank == 1:
            raise KeyboardInterrupt

    with cairn.CheckpointManager(directory, comm, hooks={"before_save": before}) as manager:
        try:
            manager.save(1, {"x": 1})
        except KeyboardInterrupt:
            assert comm.rank == 1
        except cairn.Error as error:
            assert comm.rank != 1 and error.code == "application" and error.rank == 1, error
        else:
            raise SystemExit("no error")
        assert manager.steps() == []
        manager.save(2, {"x": 1})


def a_migration_that_fails_on_one_rank(comm, directory):
    """The migration fails on one rank: at its beginning, when it sets an option, at its end; or it
    differs there."""
    def manager(version, migrate=None):
        return cairn.CheckpointManager(directory, comm, store={"application": {"version": version}},
                                       hooks={"migrate": migrate} if migrate else {})

    with manager("1") as first:
        first.save(1, {"old": np.arange(3.0)})
    for way, code in [("none", ""), ("begin", "application"), ("option", "invalid_argument"), ("end", "application"),
                      ("rename", "disagreement")]:
        state, second = {"new": np.zeros(3)}, comm.rank == 1

        def fails(where):
            if second and way == where:
                raise ValueError("no way")

        def migrate(saved_by, how):
            fails("begin")
            how.options["rename"]["new"] = "odd" if second and way == "rename" else "old"
            if second and way == "option":
                how.options["konvert"] = "exact"
            how.finish = lambda: fails("end")

        with manager("2", migrate) as later:
            if way == "none":
                later.restore(1, state)
                assert state["new"].tolist() == [0, 1, 2]
                continue
            error = refuses(code, "", later.restore, 1, state)
            assert way == "rename" or error.rank == 1, error
            assert ("no way" in str(error)) == (code == "application"), error
            assert isinstance(error.__cause__, ValueError) == (second and code == "application"), error


def others_run_while_ranks_wait(comm, directory):
    """Rank 1 comes when a thread of rank 0 has called it, which runs only while rank 0 waits for
    rank 1 in the call: threads switch only where they release the lock."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    with cairn.CheckpointManager(directory, comm) as manager:
        for call in [lambda: manager.save(1, {"x": 1}), lambda: manager.restore(1, {"x": 0}), manager.wait]:
            inside = threading.Event()
            other = threading.Thread(target=lambda: (inside.wait(), comm.send("come", 1)))
            if comm.rank == 0:
                other.start()
                inside.set()
            elif comm.rank == 1:
                assert comm.recv() == "come"
            call()
            if comm.rank == 0:
                other.join()
    sys.setswitchinterval(before)


def savers(comm, directory):
    """Each rank writes a bundle with its part of a tensor; then one of them fails."""
    fails = []

    def save(prefix):
        if fails and comm.rank == 1:
            raise ValueError("rank 1 has no room")
        mine = f"{prefix}-{comm.rank}"
        with cairn.BundleWriter(mine) as writer:
            writer.add("rows", cairn.slice(np.full((1, 2), comm.rank), (comm.size, 2), (comm.rank, 0)))
        return [mine]

    seen = []
    saver = cairn.Saver("rows", save, lambda prefix: seen.append(cairn.open(prefix)["rows"][comm.rank, 0]))
    with cairn.CheckpointManager(directory, comm, hooks={"savers": [saver]}) as manager:
        manager.save(1, {"x": 1})
        manager.restore_latest({"x": 0})
        assert seen == [comm.rank], seen
        fails.append(True)
        assert refuses("application", "", manager.save, 2, {"x": 1}).rank == 1
        assert [one["step"] for one in manager.steps()] == [1]


def after_the_end(directory):
    """MPI.Finalize comes while a manager is there: an error, not an end of the process."""
    manager = cairn.CheckpointManager(directory, MPI.COMM_WORLD)
    state = {"x": np.arange(3.0)}
    manager.save(1, state)
    MPI.Finalize()
    for call in [lambda: manager.save(2, state), lambda: manager.restore(1, state),
                 lambda: cairn.CheckpointManager(directory, MPI.COMM_WORLD)]:
        assert "finalised" in str(refuses("invalid_argument", "", call))
    del manager
    print("refused")


if __name__ == "__main__":
    after_the_end(sys.argv[1])
