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

from .leaves import Binding, _error
from .manager import CheckpointManager

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

    def __init__(self, directory, comm=None, **options):
        processes = jax.process_count()
        if comm is None and processes > 1:
            raise _error("comm", f"JAX has {processes} processes, and comm is missing",
                         "Give mpi4py's MPI.COMM_WORLD.")
        super().__init__(directory, comm, **options)

    def _binding(self, state, restoring):
        return _JaxBinding(state, restoring)


class _JaxBinding(Binding):
    def _add_all(self, path, container, items):
        if path:
            super()._add_all(path, container, items)
            return
        for name, value in list(items):
            if not isinstance(name, str):
                raise _error("state", f"it has the key {name!r}", "Keys are texts.")
            found, tree = jax.tree_util.tree_flatten_with_path(value)
            cells = [one for _, one in found]
            for number, (steps, leaf) in enumerate(found):
                key = "/".join([name, *(_word(name, step) for step in steps)])
                self._add(key, cells, number, leaf)
            self._put_back.append(lambda name=name, tree=tree, cells=cells:
                                  _put(container, name, tree.unflatten(cells)))

    def _add(self, key, container, name, value):
        if isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
            self._add_array(key, container, name, value)
        else:
            super()._add(key, container, name, value)

    def _add_array(self, key, container, name, value):
        if isinstance(value, jax.core.Tracer):
            raise _error(key, "it is traced and has no elements", "Save outside of jax.jit.")
        if isinstance(value, jax.ShapeDtypeStruct):
            if not self._restoring:
                raise _error(key, "it is a ShapeDtypeStruct and has no elements", "Give the array.")
        elif value.is_deleted():
            raise _error(key, "it was deleted, or donated to a function of jax.jit",
                         "Save what the function returned.")
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            self._add_random_key(key, container, name, value)
        elif self._restoring:
            self._add_target(key, container, name, value)
        else:
            parts = {}
            for shard in value.addressable_shards:
                place = _place(shard.index, value.shape)
                if place not in parts:
                    parts[place] = np.asarray(shard.data)
            self._add_parts(key, value, parts)

    def _add_parts(self, key, value, parts):
        if not parts:
            self.native.add_nothing(key, np.dtype(value.dtype), value.shape)
            return
        start = [tuple(low for low, _ in place) for place in parts]
        self.native.add(key, [(part, tuple(value.shape), at)
                              for at, part in zip(start, parts.values())], "automatic")

    def _add_target(self, key, container, name, value):
        sharding = value.sharding
        if sharding is None:
            sharding = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        parts = {}
        for index in sharding.addressable_devices_indices_map(tuple(value.shape)).values():
            place = _place(index, value.shape)
            if place not in parts:
                parts[place] = np.empty([high - low for low, high in place], value.dtype)
        self._add_parts(key, value, parts)

        def put_back():
            container[name] = jax.make_array_from_callback(
                tuple(value.shape), sharding, lambda index: parts[_place(index, value.shape)],
                dtype=value.dtype)

        self._put_back.append(put_back)

    def _add_random_key(self, key, container, name, value):
        if isinstance(value, jax.ShapeDtypeStruct):
            raise _error(key, "it is a ShapeDtypeStruct of a random key",
                         "Give a key, such as jax.random.key(0).")
        data = [jax.random.key_data(value)]
        self._add(key, data, 0, data[0])
        kind = jax.random.key_impl(value)

        def put_back():
            container[name] = jax.random.wrap_key_data(data[0], impl=kind)

        self._put_back.append(put_back)


def _put(container, name, value):
    container[name] = value


def _place(index, shape):
    """A shard's index as ((start, end), …)."""
    return tuple(one.indices(extent)[:2] for one, extent in zip(index, shape))


def _word(name, step):
    for kind in ("key", "idx", "name"):
        if hasattr(step, kind):
            return str(getattr(step, kind))
    raise _error(name, f"it has parts that are found by {step!r}", "Register its class with keys.")
