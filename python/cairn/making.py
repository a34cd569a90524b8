"""Makes the values that a restore creates anew from the stored tensors."""

import collections.abc

import numpy as np

from . import dtypes, forms, keys, own, texts
from .leaves import Parts, _error
from .saving import NATURAL, NOTHING, NUMBERS, Kinds, below

_SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "torch.Size": tuple}
_MAPPINGS = {name: kind for kind, name in forms.MAPPINGS.items()}


def text_of(raw, kind=str):
    return raw if kind is bytes else raw.decode("utf-8", "surrogateescape")


def numpy_dtype(key, name):
    try:
        return dtypes.of_name(name)
    except TypeError:
        raise _error(key, f"NumPy has no dtype {name} here", "Install the package ml_dtypes, which has "
                     "small ones, or restore on a machine like that which saved.") from None


class Making(Kinds, Parts):
    """Finds what a checkpoint has under a key, and makes the value that was saved. A subclass says which
    value is in its place; it has the native state, the renamed keys, and the known classes."""

    _ARRAYS = "array"  # the kind of arrays that are made if the checkpoint does not say it

    def _forget(self):
        self._stored = self._module = None
        self._texts = 0
        self._arrays = {}  # by key: functions that make or return the value
        self._ties = None  # by name of a place without a tensor of its own: the key of the same tensor
        self._tied_names = {}  # by path: names of such places below it, or of containers of them
        self._tied = []  # (key of such a place that is made, key of the same tensor)
        self._twins = {}  # by the further keys of a place that has several keys: its first key
        self._memory = {}  # by first key: the memory that is filled
        self._own = []

    # -- what is stored -----------------------------------------------------------------------------

    def _name(self, key):
        return self._rename.get(key, key)

    def _find(self, key):
        """(dtype, shape) of a stored tensor; None if there is none."""
        found = None if self._stored is None else self._stored.find(self._name(key))
        if found is None or found[0] != "uint8":
            return found
        said = self._stored.said(self._name(key), dtypes.NAME)
        try:
            name = dtypes.read(said, *found)
        except ValueError:
            raise forms.unknown(said, dtypes.NAME) from None
        return found if name is None else (name, found[1][:len(found[1]) - len(dtypes.more_of(name))])

    _bytes_of = staticmethod(dtypes.bytes_of)

    def _note_dtype(self, key, dtype, name):
        """Requires the stored bytes to have the dtype `name`, or none if that is None."""
        if name is not None or dtype == np.uint8:
            self._require_dtype(key, name or "uint8")
        return name is not None

    def _require_dtype(self, key, name):
        found = self._find(key)
        if found is not None and found[0] != name:
            raise _error(key, f"it is {name} here, and {found[0]} in the checkpoint",
                         "Give an array of the dtype that it has there.")

    def _form_at(self, key):
        said = None if self._stored is None else self._stored.said(self._name(key), forms.NAME)
        return None if said is None else forms.read(said, key)

    def _is_below(self, key):
        return self._stored is not None and len(self._stored.names_below(self._name(key))) > 0

    def _names(self, key, form):
        """The keys of a dict, taken from the names of its tensors."""
        is_int = form is not None and form.kind.endswith(" of int")
        names = [] if self._stored is None else self._stored.names_below(self._name(key))
        tied = self._tied_below(key)
        names = sorted({*names, *tied}) if tied else names
        return [int(name) for name in names] if is_int else names

    def _has_array(self, key, form=None):
        """Whether some stored value here is an array with dimensions. A program may hold such memory
        elsewhere, too, so the state must name it."""
        form = form or self._form_at(key)
        found = self._find(key)
        if form is not None and form.same is not None:
            return False
        if form is None and found is None and self._name(key) in self._all_ties():
            return True
        if form is not None and form.is_mapping:
            return any(self._has_array(below(key, name), one) for name, one in form.items())
        if form is not None and not form.is_leaf:
            return any(self._has_array(f"{key}/{number}", one) for number, one in enumerate(form.parts()))
        if found is not None and (form is None or not form.is_open):
            is_array = found[0] != "string" if form is None else self._is_kind_of_array(form.kind)
            return is_array and len(found[1]) > 0
        return any(self._has_array(below(key, name)) for name in self._names(key, form))

    def _is_kind_of_array(self, kind):
        return kind in ("array", "as parameter") or kind.startswith(("tensor", "DTensor", "jax"))

    # -- what stood under several keys, and is stored under one --------------------------------------

    def _all_ties(self):
        """By the name of a place without a tensor of its own: the key of the same one, or, where the state has
        that nowhere, its name."""
        if self._ties is None:
            self._ties = {}
            if self._stored is not None and self._stored.said_of_all(forms.TIES) is not None:
                keys = [self._below("", name) for name in (*self._values, *self._extra)]
                names = {self._name(key) for key in keys}
                for key in [*(one for one in self._stored.names_below("") if one not in names), *keys]:
                    self._find_ties(key)
        return self._ties

    def _find_ties(self, key):
        name = self._name(key)
        if self._find(key) is None:
            form = self._form_at(key)
            if form is None or form.is_leaf:  # the form of another value says it
                for word in self._stored.names_below(name):
                    self._find_ties(f"{key}/{word}")
            return
        said = self._stored.said(name, forms.TIES)
        for path in forms.read_ties(said) if said is not None else ():
            self._ties[path] = key
            while "/" in path:
                path, _, word = path.rpartition("/")
                self._tied_names.setdefault(path, set()).add(word)

    def _tied_below(self, key):
        self._all_ties()
        return self._tied_names.get(self._name(key), ())

    def _make_tied(self, key):
        """A function that returns the value stored under another key, or a dict of such; None: no tie."""
        same = self._all_ties().get(self._name(key))
        if same is None:
            return self._make(key, forms.DICT) if self._tied_below(key) else None
        self._tied.append((key, same))
        return lambda: self._arrays[same]()

    # -- memory of one place under two keys ----------------------------------------------------------

    def _first(self, key):
        """The first key of this place."""
        end = len(key)
        while end > 0 and self._twins:
            twin = self._twins.get(key[:end])
            if twin is not None:
                return twin + key[end:]
            end = key.rfind("/", 0, end)
        return key

    def _refuse_twins(self, key, first):
        raise _error(first, f"'{first}' and '{key}' are to be restored into the same place, and are not "
                     "the same in the checkpoint", "Give each a value of its own.")

    def _shared(self, key, is_same, make):
        """The memory of this key. A second key of its place gets the same memory, if it fits."""
        first = self._first(key)
        there = self._memory.get(first)
        if there is None:
            there = self._memory[first] = make()
        elif not is_same(there):
            self._refuse_twins(key, first)
        return there

    # -- what is made anew --------------------------------------------------------------------------

    def _make(self, key, form, present=None):
        """A function that makes a value of this form. `present` was at its place."""
        if form.is_mapping or form.is_open:
            return self._make_mapping(key, form, present)
        if form.is_leaf:
            maker = self._arrays[key] = self._make_leaf(key, form.kind, present)
            return maker
        if form.same is not None:
            if form.same not in self._arrays:
                raise forms.unknown(form.same)
            return self._arrays[form.same]
        if form.is_by_number:
            return self._make_by_number(key, form, present)
        kind = self._sequence(key, form, present)
        parts = form.parts()
        there = present if isinstance(present, (list, tuple)) else ()
        makers = [self._make(f"{key}/{number}", one, there[number] if number < len(there) else None)
                  for number, one in enumerate(parts)]
        if not parts:
            self._want_nothing(key)
        return lambda: kind([one() for one in makers])

    def _sequence(self, key, form, present=None):
        """A function that makes a sequence of this kind from a list."""
        if form.is_of("namedtuple"):
            kind = self.classes.find(key, form.kind, present)
            if kind is None:
                return tuple
            if len(kind._fields) != len(form.parts()):
                raise _error(key, f"it had {len(form.parts())} fields, and {own.name_of(kind)} has "
                             f"{len(kind._fields)}", "Give the class that it had in types=[…].")
            return kind._make
        return self._sequence_of(form.kind)

    def _sequence_of(self, kind):
        if kind not in _SEQUENCES:
            raise forms.unknown(kind)
        return _SEQUENCES[kind]

    def _make_by_number(self, key, form, present):
        kind = self._mapping(key, form.kind.removesuffix(forms.BY_NUMBER))
        there = present if isinstance(present, collections.abc.Mapping) else {}
        names = self._keys(key, form, there)
        makers = [self._make(f"{key}/{number}", one, there.get(name))
                  for number, (name, one) in enumerate(zip(names, form.parts()))]
        self._want_nothing(key)
        return lambda: kind(dict(zip(names, [one() for one in makers])))

    def _mapping(self, key, name):
        if name == "mapping":
            raise _error(key, "it was a dict of a class of its own", "Restore into one of this class.")
        if name not in _MAPPINGS:
            raise forms.unknown(name)
        return _MAPPINGS[name]

    def _make_dataclass(self, key, form, present):
        kind = self.classes.find(key, form.kind, present)
        if kind is not None:
            own.require_fields(key, kind, form)
        made = kind and own.empty(key, kind)
        makers = [(name, self._make(f"{key}/{name}", part, getattr(present, str(name), None)))
                  for name, part in form.items()]
        self._want_nothing(key)
        return lambda: own.filled(made, {name: make() for name, make in makers})

    def _make_stored(self, key, form=None, present=None):
        """The same for a value that has a form of its own."""
        form = form or self._form_at(key)
        if form is not None:
            maker = self._make(key, form, present)
        elif self._find(key) is not None:
            maker = self._make_unmarked(key, None)
        else:
            return self._make_tied(key) or self._make(key, forms.DICT, present)
        return self._arrays.setdefault(key, maker)

    def _make_mapping(self, key, form, present):
        if form.is_of("dataclass"):
            return self._make_dataclass(key, form, present)
        kind = self._mapping(key, form.kind.partition(" of ")[0])
        there = present if isinstance(present, collections.abc.Mapping) else {}
        items = form.items() if form.is_mapping else [(one, None) for one in self._names(key, form)]
        makers = [(one, self._make_stored(below(key, one), part, there.get(one))) for one, part in items]
        self._want_nothing(key)
        return lambda: kind({one: make() for one, make in makers})

    def _make_unsaid(self, key, kind=None):
        """A function for values under a key without a form: a module, or a dict, a list or an object with
        values that a program must have. `kind`: dict or list, if that is known."""
        names = list(dict.fromkeys(self._names(key, None)))
        if kind is not dict and set(names) == set(map(str, range(len(names)))):
            if kind is None:
                raise _error(key, "it was a list or a dict, and nothing here tells which one",
                             "Restore into an empty one.")
            makers = [self._make_part(f"{key}/{number}") for number in range(len(names))]
            return lambda: [one() for one in makers]
        makers = {name: self._make_part(below(key, name)) for name in names}
        return lambda: {name: make() for name, make in makers.items()}

    def _make_part(self, key):
        is_unsaid = self._form_at(key) is None and self._find(key) is None and self._is_below(key)
        return self._make_unsaid(key) if is_unsaid else self._make_stored(key)

    def _want_nothing(self, key):
        """A value without tensors of its own has an empty one only if it is a whole value by itself."""
        if self._find(key) is not None:
            self._want(key, NOTHING.copy())

    def _make_leaf(self, key, kind, present):
        found = self._find(key)
        if found is None:
            raise _error(key, f"it was a {kind}, and its tensor is not in the checkpoint",
                         "Restore an older one.")
        if self._is_kind_of_array(kind):
            return self._make_array(key, kind, found, present)
        if kind == "None":
            self._want_nothing(key)
            return lambda: None
        sequence, _, of_bytes = kind.partition(" of ")
        if sequence in _SEQUENCES:
            new = self._sequence_of(sequence)
            if found[0] == "string":
                words = self._want_texts([b""] * found[1][0], False, False, key)
                return lambda: new([text_of(one, bytes if of_bytes else str) for one in words()])
            array = self._want_new(key, found)
            return lambda: new(array.tolist())
        if texts.is_kind(kind):
            words = self._want_texts([b""], True, False, key)
            return lambda: texts.made_of(key, kind, text_of(words()[0]))
        if own.is_member_kind(kind):
            its = self.classes.find(key, kind, present)
            words = self._want_texts([b""], True, False, key)
            return lambda: own.made_member(key, kind.partition(" ")[0], its, text_of(words()[0]))
        if kind.startswith("function "):
            return self._own_function(key, kind.partition(" ")[2], present)
        if kind in forms.TEXTS:
            words = self._want_texts([b""], True, False, key)
            return lambda: text_of(words()[0], bytes if kind == "bytes" else str)
        if kind not in ("numpy", *NUMBERS.values()):
            raise forms.unknown(kind)
        array = self._want_new(key, found)
        return lambda: array[()] if kind == "numpy" else array.item()

    def _own_function(self, key, name, present):
        """A function in the state dict of an object is one of the object's own."""
        there = texts.name_of(present) if isinstance(present, texts.FUNCTIONS) else repr(present)
        if there != name:
            raise _error(key, f"it was the function {name}, and is {there}",
                         "Make the object with the function that it had.")
        self._want_nothing(key)
        return lambda: present

    def _make_unmarked(self, key, value):
        """A function for a value without a form: dtype and shape decide. If Cairn's Python package did
        not save it, there are no forms at all, and the value at its place decides the kinds."""
        dtype, shape = self._find(key)
        hint = None if self._module else value
        is_sequence = isinstance(hint, (list, tuple))
        sequence = type(hint) if type(hint) is tuple else list
        if dtype == "string":
            first = hint[0] if is_sequence and hint else hint
            kind = bytes if isinstance(first, bytes) else str
            if len(shape) > 1:
                raise _error(key, f"it is an array of texts of the shape {shape}",
                             "Read it by cairn.open.")
            words = self._want_texts([b""] * (shape[0] if shape else 1), not shape, False, key)
            if not shape:
                return lambda: text_of(words()[0], kind)
            return lambda: sequence([text_of(one, kind) for one in words()])
        if value is None and not self._module and (dtype, tuple(shape)) == ("uint8", (0,)):
            self._want_nothing(key)
            return lambda: None
        if not shape and dtype in NATURAL:
            array = self._want_new(key, (dtype, shape))
            is_numpys = isinstance(hint, np.generic) and hint.dtype.name == dtype
            return lambda: array[()] if is_numpys else array.item()
        if len(shape) == 1 and is_sequence:
            array = self._want_new(key, (dtype, shape))
            return lambda: sequence(array.tolist())
        kind = self._ARRAYS if self._module in (None, self._MODULE) else "array"
        return self._make_array(key, kind if shape else kind.replace("array", "numpy"),
                                (dtype, shape), None)

    def _make_array(self, key, kind, found, present):
        array = self._want_new(key, found)
        return lambda: array if array.ndim > 0 or kind == "array" else array[()]

    def _keys(self, key, form, present):
        """The keys of a dict by number."""
        there = list(present)

        def class_of(kind):
            found = self.classes.find(key, kind, *there)
            if found is None:
                raise own.Lacking
            return found

        names = []
        for number, code in enumerate(form.codes()):
            try:
                names.append(keys.made(key, code, class_of))
            except own.Lacking:
                names.append(number)
        if len(dict.fromkeys(names)) < len(names):
            raise forms.unknown(repr(names))
        return names

    # -- memory of its own --------------------------------------------------------------------------

    def _want_new(self, key, found):
        dtype, shape = numpy_dtype(key, found[0]), tuple(found[1])
        array = self._shared(key, lambda one: (one.dtype, one.shape) == (dtype, shape),
                             lambda: np.empty(shape, dtype))
        self._want(key, array)
        return array

    def _want(self, key, array):
        self.native.add(key, [(self._raw(key, array)[0], None, None)], "automatic")
        self._own.append(key)

    def _want_texts(self, texts, scalar, resizes, key):
        is_new = self._first(key) not in self._memory
        number, count, _ = self._shared(key, lambda one: one[1:] == (len(texts), scalar),
                                        lambda: (self._texts, len(texts), scalar))
        self.native.add_strings(key, texts, scalar, resizes, None if is_new else number)
        self._texts += is_new
        self._own.append(key)
        return lambda: self.native.strings(number)
