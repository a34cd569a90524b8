"""Saving and restoring."""

import atexit
import collections.abc
import json
import weakref

from . import _cairn
from .checkpoint import Checkpoint
from .leaves import Binding

_managers = weakref.WeakSet()


@atexit.register
def _close_all():
    # Before MPI is finalised, and while Python still can: what is in flight becomes durable.
    for manager in list(_managers):
        manager.close()


def _text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(one) for one in value)
    return str(value)


def _named(options, prefix=""):
    """Options as the library takes them: names with dots, and texts."""
    named = []
    for name, value in options.items():
        name = f"{prefix}{name}"
        if name == "attributes":
            named += [(f"{name}.{key}", json.dumps(said)) for key, said in value.items()]
        elif isinstance(value, collections.abc.Mapping):
            named += _named(value, f"{name}.")
        elif isinstance(value, (set, frozenset)):
            named += [(f"{name}.{key}", "true") for key in sorted(value)]
        else:
            named.append((name, _text(value)))
    return named


class CheckpointManager:
    """Numbered checkpoints of one job in one directory.

    directory  is made if it is missing; this job owns it until close()
    comm       a communicator of mpi4py; None: one rank
    stop       True, or a dict of stop options: should_stop() then hears signals, the job's time
               limit and the file STOP
    options    by their C++ names (docs/manager.md); a group of options is a dict:
               max_to_keep=3, write={"part_records": True}, store={"format": "hdf5"}

    With a communicator all methods but statistics() are collective: every rank calls them with the
    same arguments. Errors are raised on all ranks or on none.

    >>> import cairn, numpy, tempfile
    >>> state = {"u": numpy.zeros(4), "step": 0}
    >>> with cairn.CheckpointManager(tempfile.mkdtemp(), max_to_keep=3) as manager:
    ...     state["u"][:] = 7
    ...     state["step"] = 10
    ...     prefix = manager.save(10, state)
    ...     new = {"u": numpy.zeros(4), "step": 0}
    ...     report = manager.restore_latest(new)
    >>> new["u"], new["step"]
    (array([7., 7., 7., 7.]), 10)
    """

    def __init__(self, directory, comm=None, *, stop=None, **options):
        if stop is True:
            stop = {}
        self._native = None
        self._native = _cairn.Manager(
            comm, str(directory), _named(options), None if stop is None else _named(stop)
        )
        self.directory = str(directory)
        _managers.add(self)

    def save(self, step, state, **options):
        """Writes the state and commits it: on return it is durable. Returns its prefix.

        options: metric=0.5, attributes={"time": 0.25}
        """
        binding, named = self._arguments(state, options)
        return self._native.save(step, binding.native, named)

    def save_async(self, step, state, **options):
        """Copies the state and returns: arrays may be changed at once. See wait() and poll()."""
        binding, named = self._arguments(state, options)
        return self._native.save_async(step, binding.native, named)

    def restore(self, step, state, **options):
        """Fills the state from this step: arrays in place, numbers and texts in their dict.

        options: may_be_missing={"key"}, rename={"new": "old"}, convert="exact", ...
        Returns what was done, as a dict.
        """
        return self._restore(state, options, lambda *given: self._native.restore(step, *given))

    def restore_latest(self, state, **options):
        """The same from the newest whole checkpoint. Returns None if there is none."""
        return self._restore(state, options, self._native.restore_latest)

    def _arguments(self, state, options, restoring=False):
        """What is wrong with one rank's, all ranks raise: else the others would wait for it."""

        def make():
            named = _named(options)
            check = _cairn.check_restore_options if restoring else _cairn.check_save_options
            check(named)
            return Binding(state, restoring), named

        return self._native.agree(make)

    def _restore(self, state, options, restore):
        binding, named = self._arguments(state, options, restoring=True)
        report = restore(binding.native, named)
        if report is not None:
            binding.put_back()
        return report

    def should_save(self, step):
        """Whether to save now, by the option "when"; the same on all ranks."""
        return self._native.should_save(step)

    def should_stop(self):
        """None: go on. Else why to stop, as (text, exit code)."""
        return self._native.should_stop()

    def request_stop(self):
        """The application's own reason to stop, on any rank."""
        self._native.request_stop()

    def poll(self):
        """Takes saves in flight as far as they go without waiting. True: none is in flight."""
        return self._native.poll()

    def wait(self):
        """Returns when no save is in flight."""
        self._native.wait()

    def steps(self):
        """What is known of each checkpoint, as dicts, in the order of commits."""
        return self._native.steps()

    def open(self, step):
        """Looks into a checkpoint: see cairn.open."""
        return Checkpoint(self._native.open_step(step))

    def pin(self, step):
        """Keeps a checkpoint until it is unpinned."""
        self._native.pin(step)

    def unpin(self, step):
        self._native.unpin(step)

    def statistics(self):
        """What this rank knows of this manager's saves, as a dict. Not collective."""
        return self._native.statistics()

    def close(self):
        """Waits for the bytes of saves in flight, and gives up the directory."""
        if self._native is not None:
            self._native.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        # After an exception of this rank alone others are not here: nothing collective then.
        if kind is None:
            self.wait()
        self.close()
