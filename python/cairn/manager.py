"""Saving and restoring."""

import atexit
import collections.abc
import gc
import logging
import operator
import os
import sys
import weakref

from . import _cairn, disagreements, own
from .checkpoint import Checkpoint
from .leaves import _refused, path_of, refuse_to_pickle
from .options import Kept, PerDevicePolicy, Saver, code_of, named_of, of_restore
from .restoring import Restoring
from .saving import Saving

_managers = weakref.WeakSet()
_NEWEST = object()
_logger = logging.getLogger("cairn")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def _to_logging(level, message):
    """Logs a message; if logging is not set up, writes it to standard error, subject to CAIRN_LOG."""
    if _logger.hasHandlers():
        _logger.log(_LEVELS[level], "%s", message)
    elif (level != "info" or os.environ.get("CAIRN_LOG") == "info") and sys.stderr is not None:
        sys.stderr.write(f"cairn: {'error: ' if level == 'error' else ''}{message}\n")


_cairn.set_log(_to_logging)


def _give_up_others(directory, owns, ranks):
    """Ends managers of this directory to which nothing refers, but that the collector has not freed yet.
    In an interactive interpreter it also closes a manager that an earlier run of the same cell made; only
    with one rank, since all ranks would have to close it together."""
    def others():
        return [one for one in _managers if not one._closed and one._owns == owns]

    if owns is not None and others():
        gc.collect()
        if hasattr(sys, "ps1") and ranks == 1:
            for one in others():
                _logger.info("a new manager of %s takes the place of another one, which is closed", directory)
                one.close()


_HERE = "Make one where it is used."
_cairn.ShardingPolicy.__reduce__ = refuse_to_pickle("a sharding policy", "it is the library's", _HERE)
_cairn.ShardableTensor.__reduce__ = refuse_to_pickle(
    "a ShardableTensor", "it is of a save of this process", "Give its name, shape, start and extent.")
_cairn.SaveHandle.__reduce__ = refuse_to_pickle(
    "a SaveHandle", "it is of a save of this process", "Give its step.")


def _release(self):
    """Returns when the state may be written again: see CheckpointManager.save_async. It does nothing unless
    the save has until="released"."""
    self._release()
    getattr(self, "_held", []).clear()


_cairn.SaveHandle.release = _release
_cairn.SaveHandle.__repr__ = lambda self: f"<cairn.SaveHandle of step {self.step}: {self.stage}>"


@atexit.register
def _end_all():
    # Pending saves become durable here, before MPI is finalised and while Python can still wait for them.
    left, interrupt = list(_managers), None
    failed = getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1")
    while left:
        try:
            left[-1]._native.end(failed)
            left.pop()
        except KeyboardInterrupt as error:  # go on: no thread of the library may outlive this function
            interrupt = error
    _cairn.end_log()
    if interrupt is not None:
        raise interrupt


def _number(step):
    """A step as an int that the library can take."""
    try:
        number = operator.index(step)
    except TypeError:
        raise _refused("the step cannot be used", f"it is a {type(step).__name__}", "Give an int.") from None
    if not -(2**63) <= number < 2**63:
        raise _refused("the step cannot be used", "it needs more than 64 bits", "Give a smaller one.")
    return number


class CheckpointManager:
    """Numbered checkpoints of one job in one directory.

    directory  is made if it is missing; this job owns it until close()
    comm       a communicator of mpi4py; None: one rank
    stop       True, or a dict of stop options: should_stop() then hears signals, the job's time
               limit and the file STOP
    options    by their C++ names (docs/python.md); a group of options is a dict:
               max_to_keep=3, write={"part_records": True}, store={"format": "hdf5"}.
               Functions: hooks={"before_save": [f]}, called with the step before a save looks at
               the state, "savers": [cairn.Saver(…)], and "migrate": f, called with who saved it
               (cairn.Application) and a cairn.Migration when a checkpoint of another version than
               store={"application": {"version": …}} is about to be restored; store={"policy": f}, a sharding policy
               (cairn.MaxShardSizePolicy, or a function: see save), and "device_of": f, which is given
               the rank and a tensor and returns a device, such as
               "/job:worker/replica:0/task:0/device:CUDA:1"; when={"clock": f}, seconds since 1970;
               **{"async": {"on_change": f}}, called with a SaveHandle

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
        self._native, self._closed = None, False
        self._held = []  # what the last save_async still reads
        group = _cairn.group_of(comm)

        def make():
            stops = {} if stop is True else stop
            if not isinstance(stops, collections.abc.Mapping | None):
                raise _refused("the option stop cannot be used", f"it is a {type(stop).__name__}",
                               "Give True, or a dict.")
            code = Kept({**code_of(options), **code_of(stops or {}, "stop.")})
            return (path_of(directory, "the directory"), code, named_of(options),
                    None if stops is None else named_of(stops))

        # An error in the arguments of one rank is raised on all ranks.
        self.directory, self._kept, named, stops = group.agree(make)
        # A manager of another name, or one that only reads, has no conflict with others.
        self._owns = None if options.get("read_only") else (
            os.path.realpath(self.directory), options.get("name", "ckpt"))
        _give_up_others(self.directory, self._owns, group.size)
        self._native = _cairn.Manager(group, self.directory, named, self._kept.through(), stops)
        _managers.add(self)

    __reduce__ = refuse_to_pickle("a manager", "it owns its directory, for this process and its ranks",
                                  "Make one where it is used. Of torch, dcp.async_save saves in a thread: "
                                  "AsyncCheckpointerType.THREAD.")

    def __repr__(self):
        kind = type(self)
        state = "" if self._native is not None and not self._closed else ", closed"
        return f"<{kind.__module__.removesuffix('.manager')}.{kind.__name__} {self.directory!r}{state}>"

    def save(self, step, state, **options):
        """Writes the state and commits it: on return it is durable. Returns its prefix.

        options: metric=0.5, attributes={"time": 0.25}, policy=f

        A policy is given this rank's slices, as a list of cairn.ShardableTensor, and returns lists
        of them, each of which becomes a data file. It may cut them (tensor.piece(start, extent)),
        and leaves nothing out:

        >>> import cairn, numpy, tempfile
        >>> def a_file_each(tensors):
        ...     return [[one] for one in tensors]
        >>> with cairn.CheckpointManager(tempfile.mkdtemp()) as manager:
        ...     state = {"u": numpy.zeros(2), "v": numpy.ones(2)}
        ...     prefix = manager.save(1, state, policy=a_file_each)
        >>> [cairn.open(prefix)[key].slices[0][2] for key in "uv"]  # their files
        [0, 1]
        """
        return self._save(self._native.save, step, state, options)

    def save_async(self, step, state, **options):
        """Copies the state and returns: then arrays may be changed. See wait() and poll().

        until="released": returns without a copy. Arrays stay as they are until handle.release() has returned,
        which copies what was not written yet; or until a call that waits for the save. Numbers, texts and
        arrays of up to 4 KiB are copied at once.
        """
        return self._save(self._native.save_async, step, state, options)

    def _hold(self, saved, held):
        """Keeps what a save reads after its call, until it is released or written."""
        stage = getattr(saved, "stage", "")
        if stage != "skipped":  # else an earlier save may go on
            self._held = [held] if stage == "captured" else []
        if stage == "captured":
            saved._held = self._held
        return saved

    def restore(self, step, state, *, types=(), **options):
        """Fills the state from this step: arrays in place, numbers and texts in their dict.

        types    enumerations, dataclasses and named tuples that may come back and that are not in the
                 state: no class is found by a name in a file
        options  may_be_missing={"key"}, rename={"new": "old"}, convert="exact", ...
                 strict=True: the state must want all stored keys (unused="error"). strict=False: a
                 warning names keys that are stored and not wanted, or wanted and not stored.
                 In rename, names that end in * are prefixes: {"model/module.*": "model/*"}.

        Returns what was done, as a dict: step, prefix; unused_keys of the checkpoint that no rank wants;
        kept_keys that it lacks, as allowed; skipped, newer checkpoints as "step N: why"; bytes_read by all
        ranks; gap_elements of sparse tensors that no rank held; unchecked: no checksum proves the bytes.
        """
        return self._restore(step, state, types, options)

    def restore_latest(self, state, *, types=(), **options):
        """The same from the newest whole checkpoint, or the newest that lacks only its metadata.

        Returns None if there is none.
        """
        return self._restore(_NEWEST, state, types, options)

    def _save(self, save, step, state, options):
        step, binding, named, kept = self._arguments(step, state, options)
        try:
            saved = save(step, binding.native, named, kept.through())
        except _cairn.Error as error:
            disagreements.explain(error)
            raise
        return self._hold(saved, binding if options.get("until") == "released" else None)

    def _arguments(self, step, state, options, restoring=False, types=()):
        """The checked arguments. All ranks raise the error of one, since they would else wait for it."""

        def make():
            number = step if step is _NEWEST else _number(step)
            if restoring:
                named = of_restore(options)
                _cairn.check_restore_options(named)
                binding = self._restoring(state, options.get("rename") or {})
                binding.classes, binding.options = own.Classes(state, types), options
                return number, binding, named
            binding = self._saving(state)
            named, kept = named_of(self._for(binding, state, options)), Kept(code_of(options))
            _cairn.check_save_options(named, kept.through())
            return number, binding, named, kept

        return self._native.agree(make)

    def _step(self, step):
        """The step, for calls that need no other agreement and begin without a message if it is valid."""
        try:
            return _number(step)
        except _cairn.Error:
            return self._native.agree(lambda: _number(step))

    def _saving(self, state):
        return Saving(state)

    def _for(self, binding, state, options):
        """The options of a save as the library takes them."""
        return options

    def _restoring(self, state, rename):
        return Restoring(state, rename)

    def _restore(self, step, state, types, options):
        step, binding, named = self._arguments(step, state, options, restoring=True, types=types)
        try:
            if step is _NEWEST:
                report = self._native.restore_latest(binding, named)
            else:
                report = self._native.restore(step, binding, named)
            if report is not None:
                self._native.agree(binding.done)  # which calls load_state_dict and the like
            return report
        except _cairn.Error as error:
            binding.explain(error)
            raise
        finally:
            binding.release()

    def should_save(self, step):
        """Whether to save now, by the option "when"; the same on all ranks."""
        return self._native.should_save(self._step(step))

    def should_stop(self):
        """The reason to stop, as (text, exit code); None: go on."""
        return self._native.should_stop()

    def request_stop(self):
        """Asks all ranks to stop, for a reason of the application. Any rank may call it."""
        self._native.request_stop()

    def poll(self):
        """Advances pending saves as far as possible without waiting. Returns True if none is pending."""
        none = self._native.poll()
        if none:
            self._held = []
        return none

    def wait(self, home=False):
        """Returns when no save is pending; with ``home`` the newest save is then also in the directory,
        and not only on the nodes."""
        self._native.wait(home)
        self._held = []

    def steps(self):
        """Collective: all ranks call it. Returns a dict about each checkpoint, in the order of commits.

        step, sequence       its step, and the number of its commit
        newest, superseded   restore_latest takes it first; it does not belong to the line that goes on
        damage, passed_over  why it cannot be restored, and why restore_latest skips it, or ""
        pinned, metric       it stays until unpin(); the metric of its save, or None
        at_home, on_nodes    where it is: in the directory, on the nodes of a tier
        margin               on the nodes: so many more nodes of any set may be lost
        """
        return self._native.steps()

    def open(self, step):
        """Opens the checkpoint of a step: see cairn.open."""
        return Checkpoint(self._native.open_step(self._step(step)))

    def pin(self, step):
        """Keeps a checkpoint until it is unpinned."""
        self._native.pin(self._step(step))

    def unpin(self, step):
        """Removes the pin: retention may remove the checkpoint again."""
        self._native.unpin(self._step(step))

    def mark(self, step, mark):
        """Marks a checkpoint. "bad": restore_latest skips it. "good": restore_latest may take it, and the
        count of runs that restored it in vain is reset."""
        self._native.mark(self._step(step), self._is_good(mark))

    def _is_good(self, mark):
        def refuse():
            raise _refused(f"a checkpoint cannot be marked {mark!r}", "", 'It is "good" or "bad".')

        return mark == "good" if mark in ("good", "bad") else self._native.agree(refuse)

    def statistics(self):
        """What this rank knows about this manager's saves, as a dict. Not collective.

        committed, failed, skipped, replaced  how many saves, by what became of them
        asynchronous, plans_reused, on_nodes  how many of the committed ones
        bytes               written by the committed ones: the sum of their "bytes"
        blocked_seconds     how long save, save_async, poll, wait, should_save, should_stop and a
                            handle's release() have held this rank, whatever became of the saves
        pool_bytes, pool_most_bytes  this rank's memory for copies, now and at most
        since_save_seconds  since the last committed save began, wherever it went; -1: there was none
        since_home_seconds  the same of saves in the directory (tier: what all nodes' loss would cost)
        last                the last committed saves, at most 16, oldest first, each as a dict:

        step, asynchronous, on_nodes, plan_reused
        blocking_because      why save_async blocked as save does, or ""
        bytes                 written to data files
        unchanged_bytes       that overwritten files held already, and that were not written
        files, recycled_files  data files, and those of an older checkpoint that it overwrote
        replica_bytes, gap_bytes  of replicas that were not written, and of gaps in sparse tensors
        peak_resident_bytes   the most memory that the process had up to the merge; 0: unknown
        blocked_seconds       how long save, or save_async and release(), held the program
        total_seconds         from the call until the commit was known
        gigabytes_per_second  10^9 bytes per second of total_seconds
        seconds               of its stages, as a dict. wait: for earlier saves. plan: who writes what,
                              and the beginning of the save where it will be stored (in a bucket a
                              request). capture: the copy that save_async makes. write: data files and
                              records, durable. protect: parity on the nodes. merge: the index of all
                              ranks. commit. tidy: retention; of save_async 0 until it is done
        slowest               {"rank": that wrote longest, "waiting_seconds": longer than the shortest}
        shares                [{"bytes", "write_seconds"}], of each rank or, above 256, of neighbours

        A rank has its own numbers, but rank 0 has some over all ranks: the sum of bytes,
        unchanged_bytes and recycled_files; the longest wait, plan, capture, write and, of save_async,
        blocked_seconds; the highest peak_resident_bytes. files, replica_bytes, gap_bytes, slowest and
        shares are known on rank 0; elsewhere they are 0, -1 or empty. Of a save on the nodes, bytes
        are those of all ranks, and all else is the rank's own.
        """
        return self._native.statistics()

    def close(self):
        """Waits until the bytes of pending saves are written, and gives up the directory."""
        self._close(False)

    def _close(self, failed):
        if self._native is not None:
            self._native.close(failed)
            self._closed, self._held = True, []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        # After an exception on this rank alone the others do not come here, so nothing may be collective.
        if kind is None:
            self.wait()
        gives_up = isinstance(value, SystemExit) and value.code not in (None, 0)
        self._close(gives_up or (kind is not None and not issubclass(kind, (SystemExit, KeyboardInterrupt))))


def set_log(function):
    """Sends the library's messages to function(level, message), where level is "info", "warning" or
    "error". Else they go to the logger "cairn" of `logging` or, if that is not set up, to standard error.
    Any thread may call the function; its exceptions are ignored. None silences the library."""
    if function is not None and not callable(function):
        raise _refused("the log cannot be used", f"it is a {type(function).__name__}",
                       "Give a function, or None.")
    _cairn.set_log(function)


def set_wait_limits(*, log_seconds=60.0, end_seconds=0.0):
    """Sets how long a rank may wait for others inside a call before it logs that, and before it ends the
    job; 0: never."""
    _cairn.set_wait_limits(log_seconds, end_seconds)


def restore_hdf5(file, state, comm=None, **options):
    """Fills a state from an HDF5 file that another program wrote, such as h5py: keys are the paths of
    datasets, of any layout. Collective with a communicator. Options as of CheckpointManager.restore;
    returns what was done, as a dict. The bytes have no checksums: "unchecked" is True.
    """

    def make():
        binding = Restoring(state, options.get("rename") or {})
        binding.make()
        binding.file, binding.named = path_of(file, "the file"), of_restore(options)
        _cairn.check_restore_options(binding.named)
        return binding

    return _cairn.restore_hdf5(comm, make)
