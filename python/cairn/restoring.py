"""From tensors to the values of a state: what was saved decides what comes back."""

import collections.abc
import json

import numpy as np

from . import dtypes, forms, keys, own, texts
from ._cairn import State
from .forms import PARTS, PLAIN
from .leaves import Described, Parts, Private, Resizable, _error, as_array, as_bytes
from .saving import (NATURAL, NOTHING, NUMBERS, Kinds, as_numbers, below, kind_of_all,
                     require_dict)

_SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "torch.Size": tuple}
_MAPPINGS = {name: kind for kind, name in forms.MAPPINGS.items()}


def is_pattern(name):
    return isinstance(name, str) and name.endswith("*")


def text_of(raw, kind=str):
    return raw if kind is bytes else raw.decode("utf-8", "surrogateescape")


def numpy_dtype(key, name):
    try:
        return dtypes.of_name(name)
    except TypeError:
        raise _error(key, f"NumPy has no dtype {name} here", "Install the package ml_dtypes, which has "
                     "small ones, or restore on a machine like that which saved.") from None


class Restoring(Kinds, Parts):
    """A native state that is made when a restore knows its checkpoint.

    Arrays of the dict are filled in place, and must be as they were saved. All else comes back as it
    was: lists and dicts that hold no array are changed in place, and what is in them is new.
    What a walk finds it puts into the native state at once, and into the dict by put_back(), when the
    bytes are there: until then nothing of the application is touched but its arrays.
    """

    _ARRAYS = "array"  # the kind of those that are made where nothing tells it

    def __init__(self, values, rename=()):
        require_dict(values)
        self.native = State()
        self._values, self._rename = values, dict(rename)
        self.classes = own.Classes(values)
        self._prefixes = {}  # names that begin so begin otherwise in the checkpoint
        for name in list(filter(is_pattern, self._rename)):
            stored = self._rename.pop(name)
            if not is_pattern(stored):
                raise _error(name, f"rename has a * at its end, and none in '{stored}'",
                             "Give both, or neither.")
            self._prefixes[name[:-1]] = stored[:-1]
        self._forget()

    def _forget(self):
        self._stored = None
        self._texts = 0
        self._put_back = []
        self._arrays = {}  # what makes them, by key
        self._places = {}  # what is changed: (it, the key under which it came first, its form)
        self._twins = {}  # that key, by the others
        self._met = set()  # of self._prefixes
        self._memory = {}  # what is filled for it, by that key
        self._whole, self._apart, self._own, self._kept = [], [], [], []

    def make(self, stored=None):
        """Called by the library for each checkpoint that it tries, with what that holds. Without one
        each value has the dtype and shape that it has in the dict."""
        self._forget()
        self._stored = stored
        said = None if stored is None else stored.said_of_all(forms.NAME)
        self._module = None if said is None else json.loads(said)  # that saved it
        self._fit_all("", self._values)
        for prefix in self._prefixes.keys() - self._met:
            raise _error(prefix, f"rename has '{prefix}*', and nothing in the state begins so",
                         "Name keys of the state. On a rank that has none, leave it out.")
        self._stored = None
        return self._whole, self._apart, self._own, self._kept

    def put_back(self):
        for one in self._put_back:
            one()

    def release(self):
        """Nothing of the application's is kept alive."""
        self._forget()
        self.native = self._values = self.classes = None

    # -- what is stored -----------------------------------------------------------------------------

    def _name(self, key):
        return self._rename.get(key, key)

    def _below(self, path, name):
        """The key of what is in a container: by its prefix, the one that it has in the checkpoint."""
        key = below(path, name)
        fit = [one for one in self._prefixes if key.startswith(one) and len(path) < len(one)]
        if not fit or key in self._rename:
            return key
        self._met.update(fit)
        prefix = max(fit, key=len)
        return self._prefixes[prefix] + key[len(prefix) :]

    def _find(self, key):
        """(dtype, shape); None: it is not there."""
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
        """The bytes that are there are of this dtype, or of none if it is None."""
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
        """The keys of a dict whose tensors tell them."""
        is_int = form is not None and form.kind.endswith(" of int")
        names = [] if self._stored is None else self._stored.names_below(self._name(key))
        return [int(name) for name in names] if is_int else names

    def _has_array(self, key, form=None):
        """Whether some of what is stored is an array with dimensions: memory that a program may be
        holding elsewhere, too, so that it is asked for by name."""
        form = form or self._form_at(key)
        found = self._find(key)
        if form is not None and form.same is not None:
            return False
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

    # -- what the dict has there --------------------------------------------------------------------

    def _fit_all(self, path, container, saved=()):
        """A dict whose entries are asked for one by one, since some of them are arrays, or since
        nothing is said of it. `saved`: what was in it, and its form."""
        saved = dict(saved)
        for name, value in list(container.items()):
            self._fit_into(self._below(path, name), container, name, value, saved.get(name))
        for name, form in saved.items():
            key = below(path, name)
            if name not in container and (not container or not self._has_array(key, form)):
                self._set_later(key, container, name, self._make_stored(key, form))
        if path:
            self._whole.append(path)

    def _fit_into(self, key, container, name, value, form=None):
        maker = self._fit(key, value, form)
        if maker is not None:
            self._set_later(key, container, name, maker)

    def _set_later(self, key, container, name, maker):
        if not isinstance(container, collections.abc.MutableMapping | list):
            raise _error(key, f"a {type(container).__name__} cannot be changed",
                         "Restore into a dict or a list.")
        self._put_back.append(lambda: container.__setitem__(name, maker()))

    def _fit(self, key, value, form=None):
        """Adds what is stored for this value. Returns what makes another one that is to take its
        place then; None: it stays."""
        if isinstance(value, Described):
            self._fit_into(key, vars(value), "value", value.value, form)
            return None
        if form is None:
            form = self._form_at(key)
        self._note_place(key, value, form)
        if isinstance(value, collections.abc.Mapping):
            return self._fit_mapping(key, value, form)
        if isinstance(value, (list, tuple)):
            return self._fit_sequence(key, value, form)
        if own.is_dataclass(value):
            return self._fit_dataclass(key, value, form)
        if self._holds(value) == PLAIN:
            return self._fit_plain(key, value, form)
        if form is not None and form.kind == "None" and self._holds(value) < PARTS:
            return self._make(key, form)
        return self._fit_by_itself(key, value, form)

    # -- one place under two keys --------------------------------------------------------------------

    def _note_place(self, key, value, form):
        """What is changed and comes under a second key gets the memory of the first one: so the
        library finds that both are to be restored into one place, and whether they are the same."""
        if not self._is_changed(value):
            return
        _, first, its = self._places.setdefault(id(value), (value, key, form))
        if first == key:
            return
        self._twins[key] = first
        both = form is not None and its is not None
        if (form is None) != (its is None) or (both and not form.is_like(its)):
            self._refuse_twins(key, first)

    def _is_changed(self, value):
        return isinstance(value, (collections.abc.MutableMapping, list, Resizable)) or (
            own.is_dataclass(value) and not own.is_frozen(value))

    def _first(self, key):
        """The key under which this place came first."""
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
        """The memory of this key; of a second one of its place, the same if it may be."""
        first = self._first(key)
        there = self._memory.get(first)
        if there is None:
            there = self._memory[first] = make()
        elif not is_same(there):
            self._refuse_twins(key, first)
        return there

    def _fit_by_itself(self, key, value, form):
        if isinstance(value, Resizable) and isinstance(value.value, list):
            kind = bytes if form is not None and form.kind.endswith("of bytes") else str
            if form is None and value.value and isinstance(value.value[0], bytes):
                kind = bytes
            words = self._want_texts([as_bytes(key, one) for one in value.value], False, True, key)
            self._put_back.append(
                lambda: value.value.__setitem__(slice(None), [text_of(one, kind) for one in words()]))
            return None
        if isinstance(value, Private):
            self._apart.append(key)
        rows = self._add_part(key, value)
        if rows is not None:
            self._put_back.append(lambda: _put_rows(value, rows.take()))
        return None

    def _fit_mapping(self, key, value, form):
        is_plain = self._holds(value) == PLAIN
        if form is not None and form.is_of("dataclass"):
            return self._make(key, form, value)
        if form is None:
            if is_plain and self._find(key) is not None:
                return self._make_unmarked(key, None)
            if not value and not self._is_below(key):
                self._want(key, NOTHING.copy())  # which is not there
            self._fit_all(key, value)
        elif form.is_mapping or form.is_open:
            saved = form.items() if form.is_mapping else [
                (name, None) for name in self._names(key, form)]
            self._want_nothing(key)
            self._fit_all(key, value, saved)
        elif form.is_by_number:
            self._fit_by_number(key, value, form)
        elif form.kind == "None" or is_plain:
            return self._make(key, form, value)
        else:
            self._fit_all(key, value)  # which names what is missing
        return None

    def _fit_by_number(self, key, value, form):
        there = {keys.code(key, one): one for one in value if keys.is_key(one)}
        saved = {keys.code(key, one): one for one in self._keys(key, form, value)}
        for number, ((code, name), part) in enumerate(zip(saved.items(), form.parts())):
            place = f"{key}/{number}"
            if code in there:
                name = there[code]
                self._fit_into(place, value, name, value[name], part)
            elif not value or not self._has_array(place, part):
                self._set_later(place, value, name, self._make(place, part))
        for name in value:
            if not keys.is_key(name) or keys.code(key, name) not in saved:
                self._missing(f"{key}/{ascii(name)}", None)
        self._want_nothing(key)
        self._whole.append(key)

    def _keys(self, key, form, present):
        """Of a dict by number."""
        there = list(present)

        def class_of(kind):
            return self.classes.find(key, kind, *there)

        names = [keys.made(key, code, class_of) for code in form.codes()]
        if len(dict.fromkeys(names)) < len(names):
            raise forms.unknown(repr(names))
        return names

    def _fit_dataclass(self, key, value, form):
        """Its fields are set, but for a frozen one's, in whose place another one comes."""
        if form is None and (self._find(key) is not None or (
                self._holds(value) == PLAIN and not self._is_below(key))):
            return self._fit_plain(key, value, form)
        if form is not None and not form.is_of("dataclass"):
            return self._make(key, form, value)
        if form is not None and self.classes.find(key, form.kind, value) is not type(value):
            return self._make(key, form)
        own.require_fields(key, value, form, all_of_them=False)
        if not own.is_frozen(value):
            self._fit_all(key, own.Fields(value), form.items() if form is not None else ())
            return None
        cells = dict(own.Fields(value))
        before = len(self._put_back)
        self._fit_all(key, cells, form.items() if form is not None else ())
        if len(self._put_back) == before:
            return None
        return lambda: own.filled(own.empty(key, type(value)), cells)

    def _fit_sequence(self, key, value, form):
        is_plain = self._holds(value) == PLAIN
        if form is None and is_plain:
            if self._find(key) is not None:
                return self._in_place(value, self._make_unmarked(key, value))
            if not self._is_below(key):
                return self._in_place(value, self._missing(key, value))
        elif form is not None and is_plain:
            return self._in_place(value, self._make(key, form, value))
        elif form is not None and form.kind == "None":
            return self._make(key, form)
        return self._fit_items(key, value, form)

    def _fit_items(self, key, value, form):
        """Of a list or tuple with arrays, or of which nothing is said: one by one, as those of a dict.
        Numbers and texts, and arrays without dimensions, are as many as were saved."""
        saved = form.parts() if form is not None and not form.is_leaf and not form.is_mapping else None
        makers, same = [], True
        for number, one in enumerate(value):
            place = f"{key}/{number}"
            if saved is not None and number >= len(saved) and self._is_number(one):
                same = False
                continue
            maker = self._fit(place, one, saved[number] if saved and number < len(saved) else None)
            same = same and maker is None
            makers.append(maker or (lambda one=one: one))
        for number in range(len(value), len(saved or ())):
            place = f"{key}/{number}"
            if not self._has_array(place, saved[number]):
                makers.append(self._make(place, saved[number]))
                same = False
        self._whole.append(key)
        if same:
            return None
        kind = self._sequence(key, form, value) if saved is not None else type(value)
        make = getattr(kind, "_make", kind)  # of a named tuple
        return self._in_place(value, lambda: make([one() for one in makers]))

    def _is_number(self, value):
        return self._holds(value) == PLAIN or getattr(value, "ndim", 1) == 0

    def _in_place(self, value, maker):
        """What a list becomes is put into that very list, unless it is no list."""
        if maker is None or not isinstance(value, list):
            return maker

        def make():
            new = maker()
            if not isinstance(new, list):
                return new
            value[:] = new
            return value

        return make

    def _fit_plain(self, key, value, form):
        if form is not None:
            return self._make(key, form, value)
        if self._find(key) is not None:
            return self._make_unmarked(key, value)
        if self._is_below(key):
            self._whole.append(key)  # of which nothing says what it was: the library names it
            return None
        return self._missing(key, value)

    def _missing(self, key, value):
        """A value that is not in the checkpoint: the library says so, or it stays as it is. Without a
        checkpoint whose kinds are known it gets what is there, if that is of its dtype and shape."""
        if self._stored is None:
            return self._as_it_is(key, value)
        self._want(key, NOTHING.copy())
        return None

    def _as_it_is(self, key, value):
        if value is None:
            self._want(key, NOTHING.copy())
            return lambda: None
        if isinstance(value, (str, bytes)):
            words = self._want_texts([as_bytes(key, value)], True, False, key)
            return lambda: text_of(words()[0], type(value))
        if isinstance(value, (list, tuple)):
            return self._all_as_they_are(key, value)
        if isinstance(value, collections.abc.Mapping):
            if len(value) == 0:
                self._want(key, NOTHING.copy())
            makers = [(name, self._as_it_is(self._below(key, name), one)) for name, one in value.items()]
            return lambda: {name: one() for name, one in makers}
        if type(value) is int and not -(2**63) <= value < 2**64:
            self._want(key, NOTHING.copy())
            return lambda: value
        array = np.array(value) if isinstance(value, np.generic) else as_array(key, value)
        self._want(key, array)
        return lambda: array[()] if isinstance(value, np.generic) else array.item()

    def _all_as_they_are(self, key, value):
        kind, sequence = kind_of_all(value), type(value)
        if len(value) == 0:
            self._want(key, NOTHING.copy())
            return lambda: value
        if kind in (str, bytes):
            words = self._want_texts([as_bytes(key, one) for one in value], False, False, key)
            return lambda: sequence([text_of(one, kind) for one in words()])
        array = None if kind is None else as_numbers(value, kind)
        if array is not None:
            self._want(key, array)
            return lambda: sequence(array.tolist())
        makers = [self._as_it_is(f"{key}/{number}", one) for number, one in enumerate(value)]
        return lambda: sequence([one() for one in makers])

    # -- what is made anew --------------------------------------------------------------------------

    def _make(self, key, form, present=None):
        """Of a value of this form. `present` was at its place."""
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
        """What makes one of this kind of a list."""
        if form.is_of("namedtuple"):
            kind = self.classes.find(key, form.kind, present)
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
        own.require_fields(key, kind, form)
        made = own.empty(key, kind)
        makers = [(name, self._make(f"{key}/{name}", part, getattr(present, str(name), None)))
                  for name, part in form.items()]
        self._want_nothing(key)
        return lambda: own.filled(made, {name: make() for name, make in makers})

    def _make_stored(self, key, form=None, present=None):
        """The same of one whose form is its own."""
        form = form or self._form_at(key)
        if form is not None:
            return self._make(key, form, present)
        if self._find(key) is not None:
            return self._make_unmarked(key, None)
        return self._make(key, forms.DICT, present)

    def _make_mapping(self, key, form, present):
        if form.is_of("dataclass"):
            return self._make_dataclass(key, form, present)
        kind = self._mapping(key, form.kind.partition(" of ")[0])
        there = present if isinstance(present, collections.abc.Mapping) else {}
        items = form.items() if form.is_mapping else [(one, None) for one in self._names(key, form)]
        makers = [(one, self._make_stored(below(key, one), part, there.get(one))) for one, part in items]
        self._want_nothing(key)
        return lambda: kind({one: make() for one, make in makers})

    def _want_nothing(self, key):
        """What has no tensor of its own has one only where it is a whole value."""
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
        """What an object has in its state dict is one of its own."""
        there = texts.name_of(present) if isinstance(present, texts.FUNCTIONS) else repr(present)
        if there != name:
            raise _error(key, f"it was the function {name}, and is {there}",
                         "Make the object with the function that it had.")
        self._want_nothing(key)
        return lambda: present

    def _make_unmarked(self, key, value):
        """Of what has no form: what dtype and shape say. Where no face of Python has saved, which would
        have told what they do not, it is of the kinds of the value that is there."""
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


def _put_rows(value, new):
    if new is not None:
        name = "array" if hasattr(value, "array") else "value"
        dtype = getattr(value, name).dtype
        is_lacking = isinstance(dtype, np.dtype) and dtypes.lacking(dtype)
        setattr(value, name, dtypes.of_bytes(new, dtype) if is_lacking else new)
