"""The position of a job in its data: which rank takes which samples of an epoch, and which were used."""

import operator
import typing
import warnings

import numpy as np

from . import _cairn
from .leaves import _refused, refuse_to_pickle

_AT_ONCE = 1024  # samples that an iterator takes from the library


class Batch(typing.NamedTuple):
    """The result of Cursor.take: numbers of samples, their epoch, and how many samples of it came before."""

    samples: np.ndarray
    epoch: int
    first: int


def _number(what, value):
    try:
        return operator.index(value)
    except TypeError:
        raise _refused("the cursor cannot be made", f"{what} is a {type(value).__name__}", "Give an int.") from None


def _place_in(comm):
    """Rank and size of a communicator of mpi4py, a result of cairn.torch.group, or a process group."""
    rank, size = comm.rank, comm.size
    return (rank() if callable(rank) else rank), (size() if callable(size) else size)


class Cursor:
    """Deals the samples 0 … samples - 1 of each epoch to ranks, so that a job that is restarted, on any
    number of ranks, uses each once. It can be a value in a state: a save stores which samples are done.
    No method sends a message.

    samples  the number of samples
    comm     the ranks that get the samples: a communicator of mpi4py, or an object with a rank and a
             size; None: this process takes all; several such processes all take the same ones
    seed     of the order, which differs in each epoch; a restore sets the saved seed
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

    Iteration gives the numbers of this rank's samples in the epoch that are not done, so it is a
    sampler for torch's DataLoader. Then cursor.over(loader) notes which are done.
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
        """Takes the next samples of this rank's part of the epoch: so many, or fewer if fewer are left."""
        return Batch(*self._native.take(samples))

    def done(self, batch=None):
        """Notes that a batch was used: later saves store its samples as done. Batches must be done in the
        order in which they were taken, else it is an error.

        batch  a result of take(); or a number of the samples that were taken; None: all that over()
               has given to the loop
        """
        if batch is None:
            handed, self._handed = self._handed, 0
            self._native.done(handed)
        elif isinstance(batch, Batch):
            self._native.done_at(len(batch.samples), batch.epoch, batch.first)
        else:
            self._native.done(_number("what is done", batch))

    def rewind(self):
        """Samples that were taken and are not done will be taken again."""
        self._handed = 0
        self._native.rewind()

    def next_epoch(self):
        """take() goes on in the next epoch. No rank gets the samples that this one has not taken here."""
        self._native.next_epoch()

    @property
    def epoch(self):
        """The epoch that samples are taken from; 0 is the first."""
        return self._native.epoch

    @property
    def left(self):
        """The number of this rank's samples of the epoch that are not taken."""
        return self._native.left

    @property
    def waiting(self):
        """The number of samples that were taken and are not done."""
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
        """The number of batches of this size after which no rank has samples of this epoch left, counted
        from its beginning or from where a restore found it. The same on all ranks."""
        return self._native.batches(size)

    def __len__(self):
        """The number of this rank's samples of the epoch, counted from its beginning or from where a
        restore found it."""
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
        """The batches of a torch loader whose sampler is this cursor, to the end of the epoch. When the
        loop asks for the next batch, the one before is done; call done() before a save that comes
        earlier, at the end of the loop's body. Batches that workers have loaded ahead are not done.

        even  all ranks get the same number of batches: a rank without samples gets None while others
              have some, at most once unless ranks were at different places
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
        native.done(native.waiting)  # samples that the loader drops at the end count as done
        native.next_epoch()

    def _size_in(self, loader):
        """The number of samples in a batch of the loader."""
        batches = getattr(loader, "batch_sampler", None)
        sampler = loader if batches is None else batches
        if getattr(sampler, "sampler", None) is not self:
            raise _refused("the loader has another sampler", "what it gives is not what this cursor deals",
                           "Make it with sampler=cursor, or with batch_sampler=BatchSampler(cursor, size, False).")
        return 1 if batches is None else batches.batch_size
