"""Checkpoints of JAX programs, of one process or of all of a job.

>>> import cairn.jax, jax.numpy as jnp, tempfile
>>> with cairn.jax.Manager(tempfile.mkdtemp()) as manager:
...     prefix = manager.save(10, {"params": {"w": jnp.ones((2, 3))}, "step": 10})
...     state = {"params": {"w": jnp.zeros((2, 3))}, "step": 0}
...     report = manager.restore_latest(state)
>>> float(state["params"]["w"].sum()), state["step"]
(6.0, 10)
"""

import jax
import numpy as np

from . import own
from .forms import PARTS, PLAIN
from .leaves import _error
from .manager import CheckpointManager
from .restoring import Restoring
from .saving import Kinds, Saving

__all__ = ["Manager"]


class Manager(CheckpointManager):
    """Numbered checkpoints of a JAX job in one directory: a CheckpointManager whose states are
    dicts of pytrees: dicts, lists, tuples, named tuples (as optax has them) and registered classes,
    of whatever a CheckpointManager saves and

    jax.Array             the shards that this process has, each once; replicas on several
                          processes are written once and compared
    jax.ShapeDtypeStruct  only in what is restored: its sharding says where the new array lies
    keys of jax.random    their data

    Arrays of JAX never change: a restore puts new ones into the dict, on the mesh of the old ones,
    which may be another than the one that was saved.

    comm    a communicator of mpi4py on all processes of jax.distributed; None: there is one

    Everything but that is as of CheckpointManager.
    """

    def __init__(self, directory, comm=None, *, stop=None, **options):
        processes = jax.process_count()
        if comm is None and processes > 1:
            raise _error("comm", f"JAX has {processes} processes, and comm is missing",
                         "Give mpi4py's MPI.COMM_WORLD.")
        super().__init__(directory, comm, stop=stop, **options)

    def _saving(self, state):
        return _JaxSaving(state)

    def _restoring(self, state, rename):
        return _JaxRestoring(state, rename)


class _JaxKinds(Kinds):
    """Of values that are no arrays JAX makes no tree: they come back as they were saved, but for those
    of a registered class, such as the named tuples of optax."""

    def _holds(self, value):
        is_registered = own.is_named_tuple(value) or (
            own.is_dataclass(value) and not jax.tree_util.all_leaves([value]))
        return PARTS if is_registered else super()._holds(value)

    def _holds_leaf(self, value):
        is_jax = isinstance(value, (jax.Array, jax.ShapeDtypeStruct))
        return PARTS if is_jax else super()._holds_leaf(value)

    def _require_elements(self, key, value):
        if isinstance(value, jax.core.Tracer):
            raise _error(key, "it is traced and has no elements", "Save outside of jax.jit.")
        if isinstance(value, jax.Array) and value.is_deleted():
            raise _error(key, "it was deleted, or donated to a function of jax.jit",
                         "Save what the function returned.")

    def _add_parts(self, key, value, parts):
        if not parts:
            self.native.add_nothing(key, *self._raw_nothing(key, np.dtype(value.dtype), value.shape))
            return
        start = [tuple(low for low, _ in place) for place in parts]
        self.native.add(key, [self._raw_part(key, part, tuple(value.shape), at)
                              for at, part in zip(start, parts.values())], "automatic")


class _JaxSaving(_JaxKinds, Saving):
    _MODULE = "cairn.jax"

    def _add_all(self, path, container):
        if path:
            super()._add_all(path, container)
            return
        for name, value in list(container.items()):
            _require_text(name)
            if self._holds(value) == PLAIN:
                self._add(name, value)
                continue
            for steps, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
                self._add(_key(name, steps), leaf)

    def _add_by_itself(self, key, value):
        if not isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
            super()._add_by_itself(key, value)
            return
        self._require_elements(key, value)
        if isinstance(value, jax.ShapeDtypeStruct):
            raise _error(key, "it is a ShapeDtypeStruct and has no elements", "Give the array.")
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        parts = {}
        for shard in value.addressable_shards:
            place = _place(shard.index, value.shape)
            if place not in parts:
                parts[place] = np.asarray(shard.data)
        self._add_parts(key, value, parts)


class _JaxRestoring(_JaxKinds, Restoring):
    def _fit_all(self, path, container, saved=()):
        if path:
            super()._fit_all(path, container, saved)
            return
        for name, value in list(container.items()):
            _require_text(name)
            if self._holds(value) == PLAIN:
                self._fit_into(self._below("", name), container, name, value)
                continue
            found, tree = jax.tree_util.tree_flatten_with_path(value)
            cells = [one for _, one in found]
            for number, (steps, leaf) in enumerate(found):
                self._fit_into(self._below("", _key(name, steps)), cells, number, leaf)
            self._whole.append(name)
            self._set_later(name, container, name,
                            lambda tree=tree, cells=cells: tree.unflatten(cells))

    def _fit_by_itself(self, key, value, form):
        if not isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
            return super()._fit_by_itself(key, value, form)
        self._require_elements(key, value)
        if not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            return self._new_array(key, value)
        if isinstance(value, jax.ShapeDtypeStruct):
            raise _error(key, "it is a ShapeDtypeStruct of a random key",
                         "Give a key, such as jax.random.key(0).")
        data, kind = self._new_array(key, jax.random.key_data(value)), jax.random.key_impl(value)
        return lambda: jax.random.wrap_key_data(data(), impl=kind)

    def _new_array(self, key, value):
        sharding = value.sharding
        if sharding is None:
            sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        parts = {}
        for index in sharding.addressable_devices_indices_map(tuple(value.shape)).values():
            place = _place(index, value.shape)
            if place not in parts:
                parts[place] = np.empty([high - low for low, high in place], value.dtype)
        self._add_parts(key, value, parts)
        self._own.append(key)
        return lambda: jax.make_array_from_callback(
            tuple(value.shape), sharding, lambda index: parts[_place(index, value.shape)],
            dtype=value.dtype)


def _require_text(name):
    if not isinstance(name, str):
        raise _error("state", f"it has the key {name!r}", "Keys are texts.")


def _key(name, steps):
    return "/".join([name, *(_word(name, step) for step in steps)])


def _place(index, shape):
    """A shard's index as ((start, end), …)."""
    return tuple(one.indices(extent)[:2] for one, extent in zip(index, shape))


def _word(name, step):
    for kind in ("key", "idx", "name"):
        if hasattr(step, kind):
            return str(getattr(step, kind))
    raise _error(name, f"it has parts that are found by {step!r}", "Register its class with keys.")
