"""How one restore fills a state from a checkpoint of another version of the application."""

import collections.abc
import typing

from . import _cairn
from .leaves import _refused


class Application(typing.NamedTuple):
    """The program that saved a checkpoint; fields that are not known are ""."""

    name: str
    version: str
    commit: str


class Migration:
    """The second argument of hooks={"migrate": f}, after the Application that saved. f changes it.

    state    the dict that is filled
    options  a copy of the options of this restore: rename, offset and convert_keys are dicts, and
             may_be_missing is a set
    extra    a dict of more values to fill, by their keys, which belong to the migration
    finish   None, or a function that is called when all is filled, to compute new values from old ones
    """

    def __init__(self, state, options):
        self.state, self.extra, self.finish = state, {}, None
        self.options = {**options, "may_be_missing": _set_of(options.get("may_be_missing"))}
        for name in ("rename", "offset", "convert_keys"):
            self.options[name] = dict(options.get(name) or {})

    def _end(self):
        finish, self.finish = self.finish, None  # it may refer to this object, and keep arrays
        if finish is None:
            return
        try:
            finish()
        except _cairn.Error:
            raise
        except Exception as error:
            raise _refused(f"the end of hooks.migrate raised {type(error).__name__}: {error}",
                           "the state has what was saved, not what the function was to make of it",
                           "Make the state anew, or restore into it once more.", code="application") from error


def _set_of(keys):
    if isinstance(keys, str):
        return {keys}
    if isinstance(keys, collections.abc.Mapping):
        return {key for key, may in keys.items() if may}
    return set(keys or ())
