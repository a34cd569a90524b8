"""Where a job is in its data: who takes which samples of an epoch, and which of them were used."""

import operator
import typing
import warnings

import numpy as np

from . import _cairn
from .leaves import _refused, refuse_to_pickle

_AT_ONCE = 1024  # samples that an iterator takes from the library


class Batch(typing.NamedTuple):
    """What Cursor.take gives: numbers of samples, their epoch, and how many of it came before."""

    samples: np.ndarray
    epoch: int
    first: int


def _number(what, value):
    try:
        return operator.index(value)
    except TypeError:
        raise _refused("the cursor cannot be made", f"{what} is a {type(value).__name__}", "Give an int.") from None


def _place_in(comm):
    """Rank and size of a communicator of mpi4py, what cairn.torch.group gives, or a process group."""
    rank, size = comm.rank, comm.size
    return (rank() if callable(rank) else rank), (size() if callable(size) else size)


class Cursor:
    """Deals the samples 0 … samples - 1 of each epoch to ranks, so that a job that goes on, on any
    number of them, uses each once. It stands in a state as any value does: a save stores what is done.
    No method sends a message.

    samples  how many there are
    comm     the ranks that they are dealt to: a communicator of mpi4py, or what has a rank and a
             size; None: this process takes all, and if it is one of several, all take the same
    seed     of the order, which is another one in each epoch; a restore sets the one that was saved
    shuffle  False: 0, 1, 2, … in each epoch

    >>> import cairn, tempfile
    >>> with cairn.CheckpointManager(tempfile.mkdtemp()) as manager:
    ...     data = cairn.Cursor(10, shuffle=False)
    ...     batch = data.take(4)
    ...     data.done(batch)
    ...     ahead = data.take(4)        # taken, and not done
    ...     prefix = manager.save(1, {"data": data})
    ...     again = cairn.Cursor(10)
    ...     report = manager.restore_latest({"data": again})
    >>> again.take(3).samples.tolist()
    [4, 5, 6]

    Iterated, it gives the numbers of this rank's samples, those of the epoch that are not done: a
    sampler for torch's DataLoader. Then cursor.over(loader) says what is done.
    """

    __slots__ = ("_handed", "_native")

    def __init__(self, samples, comm=None, *, seed=0, shuffle=True):
        rank, ranks = (0, 1) if comm is None else _place_in(comm)
        seed = _number("seed", seed)
        if not 0 <= seed < 2**64:
            raise _refused("the cursor cannot be made", f"its seed is {seed}", "Give a number of 0 … 2**64 - 1.")
        self._native = _cairn.Cursor(_number("samples", samples), seed, bool(shuffle), rank, ranks)
        self._handed = 0  # samples that over() has given to the loop

    __reduce__ = refuse_to_pickle("a cursor", "its place is this job's", "Save it in a state.")

    def __repr__(self):
        native = self._native
        return (f"<cairn.Cursor over {native.samples} samples, rank {native.rank} of {native.ranks}, "
                f"epoch {native.epoch}, {native.left} left>")

    def take(self, samples):
        """The next samples of this rank's part of the epoch, as many, or those that are left."""
        return Batch(*self._native.take(samples))

    def done(self, batch=None):
        """It has been used: what is saved from here on has it. Batches are done in the order in which
        they were taken, else it is an error.

        batch  what take() gave; or a number of samples, of those that were taken; None: all that
               over() has given to the loop
        """
        if batch is None:
            handed, self._handed = self._handed, 0
            self._native.done(handed)
        elif isinstance(batch, Batch):
            self._native.done_at(len(batch.samples), batch.epoch, batch.first)
        else:
            self._native.done(_number("what is done", batch))

    def rewind(self):
        """What was taken and is not done is taken again."""
        self._handed = 0
        self._native.rewind()

    def next_epoch(self):
        """take() goes on in the next epoch. What this rank has not taken of this one nobody will."""
        self._native.next_epoch()

    @property
    def epoch(self):
        """That samples are taken from; 0 is the first."""
        return self._native.epoch

    @property
    def left(self):
        """How many of this rank's samples of the epoch are not taken."""
        return self._native.left

    @property
    def waiting(self):
        """How many were taken and are not done."""
        return self._native.waiting

    @property
    def samples(self):
        return self._native.samples

    @property
    def seed(self):
        return self._native.seed

    @property
    def shuffle(self):
        return self._native.shuffle

    @property
    def rank(self):
        return self._native.rank

    @property
    def ranks(self):
        return self._native.ranks

    def batches(self, size):
        """How many batches of this size it takes until no rank has samples of this epoch left, from its
        beginning, or from where a restore found it: the same on all ranks."""
        return self._native.batches(size)

    def __len__(self):
        """How many samples this rank has of the epoch, from its beginning, or from where a restore
        found it."""
        return self._native.share

    def __iter__(self):
        native = self._native
        if 0 < native.share == native.waiting:
            warnings.warn("A pass over the data has taken all of this rank's samples, and nothing says that they "
                          "were used, so that they come again. Iterate cursor.over(loader), or call cursor.done().",
                          stacklevel=2)
        self.rewind()
        while True:
            samples = native.take(_AT_ONCE)[0].tolist()
            if not samples:
                return
            yield from samples

    def over(self, loader, *, even=False):
        """The batches of a loader of torch's, whose sampler is this cursor, to the end of the epoch.
        When the loop asks for the next batch, the one before is done; call done() before a save that
        comes earlier, at the end of the loop's body. What workers have loaded ahead is not done.

        even  all ranks get as many batches: who has no samples left when others have gets None, once
              at most unless ranks were at different places
        """
        size = self._size_in(loader)
        native = self._native
        self.rewind()
        left = native.left
        steps = native.batches(size) - -(-(native.share - left) // size)
        for batch in loader:
            count = min(size, left)
            left -= count
            steps -= 1
            self._handed += count
            yield batch
            self.done()
        for _ in range(steps if even else 0):
            yield None
        native.done(native.waiting)  # what the loader drops at the end is dropped
        native.next_epoch()

    def _size_in(self, loader):
        """How many samples a batch of the loader has."""
        batches = getattr(loader, "batch_sampler", None)
        sampler = loader if batches is None else batches
        if getattr(sampler, "sampler", None) is not self:
            raise _refused("the loader has another sampler", "what it gives is not what this cursor deals",
                           "Make it with sampler=cursor, or with batch_sampler=BatchSampler(cursor, size, False).")
        return 1 if batches is None else batches.batch_size
