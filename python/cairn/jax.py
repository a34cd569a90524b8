"""Checkpoints of JAX programs, of one process or of all processes of a job.

>>> import cairn.jax, jax.numpy as jnp, tempfile
>>> with cairn.jax.Manager(tempfile.mkdtemp()) as manager:
...     prefix = manager.save(10, {"params": {"w": jnp.ones((2, 3))}, "step": 10})
...     state = {"params": {"w": jnp.zeros((2, 3))}, "step": 0}
...     report = manager.restore_latest(state)
>>> float(state["params"]["w"].sum()), state["step"]
(6.0, 10)
"""

import jax
import jax.numpy as jnp
import numpy as np

from . import own
from .forms import NAME, PARTS, PLAIN
from .leaves import _error, json_of
from .making import numpy_dtype
from .manager import CheckpointManager as _CheckpointManager
from .restoring import Restoring
from .saving import NATURAL, NUMBERS, Kinds, Saving

__all__ = ["Manager"]


# Kinds of values, besides those of forms.py. Most arrays need no kind.
_ARRAY = "jax.Array"
_WEAK = "jax.Array weak"  # of a weak type: in sums it takes the other's dtype
_KEY = "jax key "  # followed by the name of the generator


class Manager(_CheckpointManager):
    """Numbered checkpoints of a JAX job in one directory: a CheckpointManager whose states are
    dicts of pytrees: dicts, lists, tuples, named tuples (as optax has them) and registered classes,
    of whatever a CheckpointManager saves and

    jax.Array             the shards that this process has, each once; replicas on several
                          processes are written once and compared
    jax.ShapeDtypeStruct  only in a state that is restored, as jax.eval_shape makes them: its sharding
                          says where the new array lies
    keys of jax.random    their data, and the name of their generator

    Arrays of JAX never change: a restore puts new ones into the dict, on the mesh of the old ones,
    which may differ from the saved mesh. A Python number that became an array, or the reverse, comes
    back as it was saved.

    comm    a communicator of mpi4py on all processes of jax.distributed; None: there is one process

    Everything else is as in CheckpointManager.
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
    """Values without arrays are not walked as pytrees: they come back as they were saved, except those of
    a registered class, such as the named tuples of optax."""

    _MODULE = "cairn.jax"

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
    def _is_told(self, key, text, value):
        """A value without a form is an array of JAX."""
        return text not in ('"numpy"', '"array"') and super()._is_told(key, text, value)

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
        if _is_key(value):
            self._say(key, json_of(NAME, _KEY + str(jax.random.key_impl(value))))
            value = jax.random.key_data(value)
        elif value.weak_type:
            self._say(key, json_of(NAME, _WEAK))
        elif value.ndim == 0 and value.dtype.name in NATURAL:
            self._say(key, json_of(NAME, _ARRAY))
        parts = {}
        for shard in value.addressable_shards:
            place = _place(shard.index, value.shape)
            if place not in parts:
                parts[place] = np.asarray(shard.data)
        self._add_parts(key, value, parts)


class _JaxRestoring(_JaxKinds, Restoring):
    _ARRAYS = _ARRAY

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

    def _make_unsaid(self, key, kind=None):
        """For a tree with arrays the state decides: the library names what the state lacks."""
        self._whole.append(key)

    def _fit_by_itself(self, key, value, form):
        if not isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
            return super()._fit_by_itself(key, value, form)
        self._require_elements(key, value)
        if value.ndim == 0 and not _is_key(value) and self._is_number_there(key, form):
            return self._make_stored(key, form)
        kind = form.kind if form is not None else _ARRAY
        impl = _key_of(value) if _is_key(value) else None
        if kind.startswith(_KEY) or (impl and self._module == self._MODULE):
            was, here = (one.removeprefix(_KEY) if one.startswith(_KEY) else None
                         for one in (kind, _KEY + impl[0] if impl else ""))
            if was != here:
                raise _error(key, f"it is {_said(here)} here, and was {_said(was)}",
                             "Restore into what was saved, and make the other one of it.")
        if impl is None:
            return self._new_array(key, value, value.dtype, value.shape, kind == _WEAK)
        data = self._new_array(key, value, *impl[1:])
        return lambda: jax.random.wrap_key_data(data(), impl=impl[0])

    def _is_number_there(self, key, form):
        """Whether the saved value is a number of Python or NumPy, which comes back as such."""
        if form is not None:
            return form.kind in ("numpy", *NUMBERS.values())
        found = self._find(key)
        return (self._module == self._MODULE and found is not None and found[0] in NATURAL
                and len(found[1]) == 0)

    def _new_array(self, key, value, dtype, shape, is_weak=False):
        """A function that makes an array which lies where `value` does."""
        _require_bits(key, dtype)
        shape, sharding = tuple(shape), _sharding(key, value)
        if sharding is None:
            array = np.empty(shape, dtype)
            self._add_parts(key, array, {tuple((0, extent) for extent in shape): array})
            self._own.append(key)
            device = next(iter(value.devices())) if isinstance(value, jax.Array) else None
            return lambda: _uncommitted(array, is_weak, device)
        parts = {}
        for index in sharding.addressable_devices_indices_map(shape).values():
            place = _place(index, shape)
            if place not in parts:
                parts[place] = np.empty([high - low for low, high in place], dtype)
        self._add_parts(key, jax.ShapeDtypeStruct(shape, dtype), parts)
        self._own.append(key)

        def make():
            array = jax.make_array_from_callback(
                shape, sharding, lambda index: parts[_place(index, shape)], dtype=dtype)
            return _settled(jax.device_put(_weak(array), sharding) if is_weak else array)

        return make

    def _make_array(self, key, kind, found, present):
        maker = super()._make_array(key, kind, found, present)
        if not kind.startswith("jax"):
            return maker
        _require_bits(key, numpy_dtype(key, found[0]))
        if kind.startswith(_KEY):
            return lambda: jax.random.wrap_key_data(maker(), impl=kind.removeprefix(_KEY))
        return lambda: _uncommitted(maker(), kind == _WEAK)


def _is_key(value):
    return jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _key_of(value):
    """(name of the generator, dtype of the data, shape of the data) of a random key or its struct."""
    names = []

    def data(key):
        names.append(str(jax.random.key_impl(key)))
        return jax.random.key_data(key)

    made = jax.eval_shape(data, jax.ShapeDtypeStruct(value.shape, value.dtype))
    return names[0], made.dtype, made.shape


def _said(kind):
    return f"a random key of {kind}" if kind else "an array"


def _sharding(key, value):
    """The sharding; None if the array is uncommitted: then computations decide where it lies."""
    sharding = value.sharding
    if sharding is None or (isinstance(value, jax.Array) and not value.committed):
        return None
    if isinstance(getattr(sharding, "mesh", None), jax.sharding.AbstractMesh):
        there = jax.sharding.get_mesh()
        if there.abstract_mesh != sharding.mesh:
            raise _error(key, "its sharding names a mesh without devices",
                         "Restore under jax.set_mesh, or give a sharding of devices.")
        return jax.sharding.NamedSharding(there, sharding.spec)
    return sharding


def _require_bits(key, dtype):
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise _error(key, f"JAX would make its {dtype} shorter", "Set jax_enable_x64.")


def _uncommitted(array, is_weak, device=None):
    with jax.default_device(device or jax.config.jax_default_device):
        made = jax.device_put(array)
        return _settled(_weak(made) if is_weak else made)


def _settled(array):
    """Waits for the copy, which JAX does later: its source would stay in memory until then."""
    return array.block_until_ready()


def _weak(array):
    """The same with a weak type. JAX makes a weak type only from numbers of Python."""
    zero = jnp.asarray({"i": 0, "f": 0.0, "c": 0j}.get(array.dtype.kind))
    return jnp.broadcast_to(zero, array.shape).at[...].set(array) if zero.dtype == array.dtype else array


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
