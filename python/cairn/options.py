"""Converts options, and those that are functions, for the library."""

import collections.abc
import weakref

from . import _cairn
from .leaves import _refused, json_of, require_whole


def _text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(one) for one in value)
    return str(value)


def _rule(rule):
    """The text of a rule by key."""
    if isinstance(rule, collections.abc.Mapping) and rule.get("keys") and set(rule) <= {"keys", "last", "every"}:
        return rule["keys"] + "".join(f":{name}={rule[name]}" for name in ("last", "every") if name in rule)
    if isinstance(rule, str) and rule:
        return rule
    raise _refused("keep.keys cannot be used", f"{rule!r} is no rule",
                   "Give a text, 'optimizer/*:last=2', or a dict of keys, last and every.")


def is_code(value):
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and all(callable(one) or isinstance(one, Saver) for one in value)
    return callable(value) or isinstance(value, (_cairn.ShardingPolicy, PerDevicePolicy))


def code_of(options, prefix=""):
    """The options that are functions, by their names with dots."""
    code = {}
    for name, value in options.items():
        if isinstance(value, collections.abc.Mapping):
            code.update(code_of(value, f"{prefix}{name}."))
        elif is_code(value):
            code[f"{prefix}{name}"] = value
    return code


def named_of(options, prefix=""):
    """The other options, as pairs of names with dots and texts."""
    named = []
    for name, value in options.items():
        name = f"{prefix}{name}"
        if name == "attributes":
            named += [(f"{name}.{key}", json_of(key, said)) for key, said in value.items()]
        elif isinstance(value, collections.abc.Mapping):
            named += named_of(value, f"{name}.")
        elif is_code(value):
            continue
        elif name == "keep.keys" and isinstance(value, (list, tuple)):
            named.append((name, ",".join(_rule(one) for one in value)))
        elif isinstance(value, (set, frozenset)):
            named += [(f"{name}.{key}", "true") for key in sorted(value)]
        else:
            named.append((name, _text(value)))
    for name, text in named:
        require_whole("the option", name)
        require_whole(f"the option {name}:", text)
    return named


def is_pattern(name):
    return isinstance(name, str) and name.endswith("*")


def _without_strict(options):
    """Replaces strict by the two options that it stands for; given values of these have priority."""
    strict = options.pop("strict", None)
    if strict is None:
        return options
    if not isinstance(strict, bool):
        raise _refused("the option strict cannot be used", f"it is {strict!r}", "Give True or False.")
    return {**({"unused": "error"} if strict else {"unused": "warn", "all_may_be_missing": True}), **options}


def of_restore(options):
    """The same for a restore, without renamed prefixes: the walk handles them. Keys may be a list."""
    options = _without_strict(dict(options))
    rename = options.get("rename")
    if isinstance(rename, collections.abc.Mapping):
        rename = {name: stored for name, stored in rename.items() if not is_pattern(name)}
        options = {**options, "rename": rename}
    missing = options.get("may_be_missing")
    if isinstance(missing, (str, list, tuple)):
        options = {**options, "may_be_missing": {missing} if isinstance(missing, str) else set(missing)}
    if callable(options.get("accept")):
        raise _refused("accept cannot be used", "it is a function",
                       "Give versions, accept=['2.*'], or raise in hooks={'migrate': f}.")
    # The library refuses functions among them.
    return named_of(options) + [(name, str(value)) for name, value in code_of(options).items()]


class Kept:
    """Options that are functions. The library calls them through this object, and keeps none alive: Python's
    garbage collector does not see the library's references, and a function may refer to the manager."""

    def __init__(self, code):
        self._code = {name: list(value) if isinstance(value, (list, tuple)) else value
                      for name, value in code.items()}

    def through(self):
        """Functions for the library that find the application's through a weak reference."""
        return {name: self._each(value, name) for name, value in self._code.items()}

    def _each(self, value, *place):
        if isinstance(value, (list, tuple)):
            return [self._each(one, *place, number) for number, one in enumerate(value)]
        if isinstance(value, PerDevicePolicy):
            inner = value.policy
            return _cairn.PerDevicePolicy(
                None if inner is None else self._each(inner, *place, PerDevicePolicy))
        if isinstance(value, Saver):
            return Saver(value.name, _Through(self, *place, "save"), _Through(self, *place, "restore"))
        return _Through(self, *place) if callable(value) else value

    def _at(self, place):
        value = self._code[place[0]]
        for one in place[1:]:
            if one is PerDevicePolicy:
                value = value.policy
            else:
                value = getattr(value, one) if isinstance(one, str) else value[one]
        return value


class _Through:
    """A function that is kept alive by the owner of the Kept."""

    def __init__(self, kept, *place):
        self._kept, self._place = weakref.ref(kept), place
        function = kept._at(place)
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *given):
        kept = self._kept()
        return None if kept is None else kept._at(self._place)(*given)


class PerDevicePolicy:
    """Calls another policy (None: one data file) once for each device of a rank."""

    def __init__(self, policy=None):
        self.policy = policy

    def __repr__(self):
        return f"cairn.PerDevicePolicy({self.policy!r})"


class Saver:
    """Data that the application writes itself, as part of each checkpoint of a manager with
    hooks={"savers": [saver]}. On all ranks:

    name     is kept in the checkpoint
    save     is called with a prefix before the state is written. It may write bundles
             (cairn.BundleWriter) whose prefixes begin with this one, and returns those that this rank
             has written, or None
    restore  is called with the checkpoint's prefix (for cairn.open) after the state was restored

    >>> import cairn, numpy, tempfile
    >>> table = {"rows": 3}
    >>> def save(prefix):
    ...     with cairn.BundleWriter(prefix + "-table") as writer:
    ...         writer.add("table/rows", table["rows"])
    ...     return [prefix + "-table"]
    >>> def restore(prefix):
    ...     table["rows"] = int(cairn.open(prefix)["table/rows"][()])
    >>> hooks = {"savers": [cairn.Saver("table", save, restore)]}
    >>> with cairn.CheckpointManager(tempfile.mkdtemp(), hooks=hooks) as manager:
    ...     prefix = manager.save(1, {"u": numpy.zeros(2)})
    ...     table["rows"] = 0
    ...     report = manager.restore_latest({"u": numpy.zeros(2)})
    >>> table
    {'rows': 3}
    """

    def __init__(self, name, save, restore):
        require_whole("the name", name)
        self.name, self.save, self.restore = name, save, restore

    def __repr__(self):
        return f"<cairn.Saver {self.name!r}>"
