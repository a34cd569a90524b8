"""Restores tensors to the values of a state. What was saved decides what comes back."""

import collections.abc
import json

import numpy as np

from . import disagreements, dtypes, forms, keys, own
from ._cairn import State
from .cursor import Cursor
from .forms import PARTS, PLAIN
from .leaves import Described, Private, Resizable, _error, as_array, as_bytes
from .making import Making, text_of
from .migration import Application, Migration
from .options import is_pattern, of_restore
from .saving import NOTHING, as_numbers, below, kind_of_all, require_dict

_STAR = "A * stands for the rest of a key: it is at the end of both names of a rename, and nowhere else."


class Restoring(Making):
    """A native state that is made when a restore knows its checkpoint.

    Arrays of the dict are filled in place, and must have the saved dtype and shape. All other values come
    back as they were: lists and dicts that hold no array are changed in place, and their elements are new.
    The walk adds memory to the native state at once; put_back() puts values into the dict when the
    bytes are there. Until then no object of the application is touched except its arrays.
    """

    def __init__(self, values, rename=()):
        require_dict(values)
        self.native = State()
        self._values, self._given_rename = values, rename
        self.options = {}  # of this call, as the application gave them
        self._migration, self._extra = None, {}  # for the checkpoint that is tried
        self.classes = own.Classes(values)
        self._rename_by(rename)
        self._forget()

    def _rename_by(self, rename):
        self._rename = dict(rename)
        self._prefixes = {}  # beginnings of names, and what they are in the checkpoint
        for name in list(filter(is_pattern, self._rename)):
            stored = self._rename.pop(name)
            if not is_pattern(stored):
                raise _error(name, f"rename has a * at its end, and none at that of '{stored}'", _STAR)
            self._prefixes[name[:-1]] = stored[:-1]

    def _forget(self):
        super()._forget()
        self._put_back = []
        self._places = {}  # objects that are changed: (the object, its first key, its form)
        self._met = set()  # prefixes in self._prefixes that fit a key
        self._seen = set()  # keys, before they are renamed
        self._whole, self._apart, self._kept = [], [], []
        self._told = {}  # for errors: places that were tied, and to which key

    def migrate(self, function, name, version, commit):
        """The library calls this before make() if another version of the application saved the checkpoint.
        The application's function says how to restore it. Returns the options."""
        self._migration = Migration(self._values, self.options)
        function(Application(name, version, commit), self._migration)
        return of_restore(self._migration.options)

    def make(self, stored=None, migrated=False):
        """The library calls this for each checkpoint that it tries, with its contents, and whether migrate()
        was called for it. Without contents each value keeps the dtype and shape that it has in the dict."""
        self._forget()
        if not migrated:
            self._migration = None
        how = self._migration
        self._rename_by(self._given_rename if how is None else how.options.get("rename") or {})
        self._extra = {} if how is None else how.extra
        self._stored = stored
        said = None if stored is None else stored.said_of_all(forms.NAME)
        self._module = None if said is None else json.loads(said)  # the module that saved it
        self._fit_all("", self._values)
        if self._extra:
            require_dict(self._extra)
            self.classes.see(self._extra)
            self._fit_all("", self._extra)
        self.classes.require_all()
        for key, same in self._tied:
            if same not in self._arrays:
                self._missing(key, None)
        self._require_prefixes()
        self._told = {path: self._name(same) for path, same in self._all_ties().items()}
        self._stored = None
        return self._whole, self._apart, self._own, self._kept

    def _require_prefixes(self):
        for prefix, stored in self._prefixes.items():
            is_met = prefix in self._met
            is_turned = any(key.startswith(stored) for key in self._seen) and self._begins(prefix)
            if is_met and (not is_turned or self._begins(stored)):
                continue
            problem = f"rename has '{prefix}*', and nothing in the state begins so"
            if is_met:
                problem = f"rename makes it of '{stored}*', and nothing in the checkpoint begins so"
            raise _error(prefix, problem,
                         f"Turn it round: {{'{stored}*': '{prefix}*'}}. What the state has comes first, then what "
                         "the checkpoint calls it." if is_turned else _STAR if "*" in prefix + stored else
                         "Name keys of the state. On a rank that has none, leave it out.")

    def _begins(self, prefix):
        """Whether a stored key begins so."""
        path, _, begin = prefix.rpartition("/")
        names = self._stored.names_below(path) if self._stored is not None else ()
        return any(name.startswith(begin) for name in names)

    def _below(self, path, name):
        """The key of a value in a container; if a renamed prefix fits, its key in the checkpoint."""
        key = below(path, name)
        if not self._prefixes:
            return key
        self._seen.add(key)
        fit = [one for one in self._prefixes if key.startswith(one) and len(path) < len(one)]
        if not fit or key in self._rename:
            return key
        self._met.update(fit)
        prefix = max(fit, key=len)
        return self._prefixes[prefix] + key[len(prefix) :]

    def explain(self, error):
        """Adds what is known here to an error of the library."""
        stars = [one for both in self._rename.items() for one in both if isinstance(one, str) and "*" in one]
        if any(f"'{one}'" in error.problem for one in stars):
            disagreements.change(error, way_out=_STAR)
        if error.code != "not_found":
            return
        tied = [(path, same) for path, same in self._told.items() if f"'{path}'" in error.problem][:5]
        if tied:
            said = ", ".join(f"'{path}' was tied to '{same}' when it was saved" for path, same in tied)
            names = ", ".join(f"'{self._name_here(path)}': '{same}'" for path, same in tied)
            disagreements.change(error, reason=f"{said}; {error.reason}",
                                 way_out=f"To fill both from the one: rename={{{names}}}. {error.way_out}")

    def _name_here(self, name):
        """The state's key for this name of the checkpoint."""
        for key, stored in self._rename.items():
            if stored == name:
                return key
        fit = [one for one in self._prefixes.items() if name.startswith(one[1])]
        prefix, stored = max(fit, key=lambda one: len(one[1]), default=("", ""))
        return prefix + name[len(stored) :]

    def put_back(self):
        """Puts the values into the dict. Each value's buffer is freed before the next value is made."""
        self.native.release_memory()
        self._memory = {}
        shared = {same for _, same in self._tied}
        self._arrays = {key: maker for key, maker in self._arrays.items() if key in shared}
        later, self._put_back = self._put_back[::-1], []
        while later:
            later.pop()()

    def done(self):
        """Called when all bytes are there."""
        self.put_back()
        if self._migration is not None:
            self._migration._end()

    def release(self):
        """Releases all objects of the application."""
        self._forget()
        self.native = self._values = self._extra = self.classes = self._migration = self.options = None

    # -- what the dict has there --------------------------------------------------------------------

    def _fit_all(self, path, container, saved=()):
        """Fits the entries of a dict one by one, since some of them are arrays, or since it has no form.
        `saved`: the saved entries, and their forms."""
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
        self._arrays.setdefault(key, maker or (lambda: value))
        if maker is not None:
            self._set_later(key, container, name, maker)

    def _set_later(self, key, container, name, maker):
        if not isinstance(container, collections.abc.MutableMapping | list):
            raise _error(key, f"a {type(container).__name__} cannot be changed",
                         "Restore into a dict or a list.")
        self._put_back.append(lambda: container.__setitem__(name, maker()))

    def _fit(self, key, value, form=None):
        """Adds the stored tensors of this value. Returns a function that makes the value to put in its
        place; None if it stays."""
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
        """An object that is changed and has a second key gets the memory of its first key: so the
        library finds out that both are restored into one place, and whether their bytes are equal."""
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

    def _fit_by_itself(self, key, value, form):
        if isinstance(value, Resizable) and isinstance(value.value, list):
            kind = bytes if form is not None and form.kind.endswith("of bytes") else str
            if form is None and value.value and isinstance(value.value[0], bytes):
                kind = bytes
            words = self._want_texts([as_bytes(key, one) for one in value.value], False, True, key)
            self._put_back.append(
                lambda: value.value.__setitem__(slice(None), [text_of(one, kind) for one in words()]))
            return None
        if isinstance(value, Cursor):
            self.native.add_cursor(key, value._native)
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
                if self._tied_below(key):
                    return self._fit_mapping(key, value, forms.DICT)
                maker = self._make_tied(key)
                if maker is not None:
                    return maker
                self._want(key, NOTHING.copy())  # the library reports it as missing
            elif not value:
                return self._in_place(value, self._make_unsaid(key, dict))
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
            self._fit_all(key, value)  # the library names what is missing
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

    def _fit_dataclass(self, key, value, form):
        """Sets the fields of a dataclass; a frozen object is replaced by another one."""
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
                return self._in_place(value, self._make_tied(key) or self._missing(key, value))
            if not value:
                return self._in_place(value, self._make_unsaid(key, list))
        elif form is not None and is_plain:
            return self._in_place(value, self._make(key, form, value))
        elif form is not None and form.kind == "None":
            return self._make(key, form)
        return self._fit_items(key, value, form)

    def _fit_items(self, key, value, form):
        """Fits the elements of a list or tuple with arrays, or without a form, one by one as in a dict.
        Numbers, texts and arrays without dimensions become as many as were saved."""
        saved = form.parts() if form is not None and not form.is_leaf and not form.is_mapping else None
        makers, same = [], True
        for number, one in enumerate(value):
            place = f"{key}/{number}"
            if saved is not None and number >= len(saved) and self._is_number(one):
                same = False
                continue
            maker = self._fit(place, one, saved[number] if saved and number < len(saved) else None)
            same = same and maker is None
            makers.append(self._arrays.setdefault(place, maker or (lambda one=one: one)))
        for number in range(len(value), len(saved or ())):
            place = f"{key}/{number}"
            if not self._has_array(place, saved[number]):
                makers.append(self._make(place, saved[number]))
                same = False
        self._whole.append(key)
        if same:
            return None
        kind = self._sequence(key, form, value) if saved is not None else type(value)
        make = getattr(kind, "_make", kind)  # for a named tuple
        return self._in_place(value, lambda: make([one() for one in makers]))

    def _is_number(self, value):
        return self._holds(value) == PLAIN or getattr(value, "ndim", 1) == 0

    def _in_place(self, value, maker):
        """Puts the made value into the list or dict that is there; other objects are replaced."""
        if maker is None or not isinstance(value, list | collections.abc.MutableMapping):
            return maker

        def make():
            new = maker()
            if isinstance(value, list) and isinstance(new, list):
                value[:] = new
            elif not isinstance(value, list) and isinstance(new, dict):
                value.update(new)
            else:
                return new
            return value

        return make

    def _fit_plain(self, key, value, form):
        if form is not None:
            return self._make(key, form, value)
        if self._find(key) is not None:
            return self._make_unmarked(key, value)
        if self._is_below(key):
            return self._make_unsaid(key)
        return self._make_tied(key) or self._missing(key, value)

    def _missing(self, key, value):
        """For a value that is not in the checkpoint: the library raises, or the value stays as it is. If no
        contents are known, it gets the stored elements, if they have its dtype and shape."""
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


def _put_rows(value, new):
    if new is not None:
        name = "array" if hasattr(value, "array") else "value"
        dtype = getattr(value, name).dtype
        is_lacking = isinstance(dtype, np.dtype) and dtypes.lacking(dtype)
        setattr(value, name, dtypes.of_bytes(new, dtype) if is_lacking else new)
