"""Explains errors of saves in which ranks have values of different kinds: it says what each rank has. The
library's own error only names attributes and dtypes."""

import json
import re

from . import forms
from .saving import below

_SAYS = re.compile(r"(?:, )?rank (\d+) says ")
_NOTHING = re.compile(r"\buint8 \[0\](?= on rank )")


def change(error, **parts):
    """Changes `problem`, `reason` or `way_out` of an error, and its text."""
    text = str(error)
    for name, new in parts.items():
        text = text.replace(getattr(error, name), new, 1)
        setattr(error, name, new)
    error.args = (text,)


def explain(error):
    if error.code != "disagreement" or not error.tensor:
        return
    change(error, problem=_NOTHING.sub("None or what is empty", error.problem))
    said = _sayings(error.reason)
    if len(said) != 2 or any(forms.NAME not in one for _, one in said):
        return
    key, *kinds = _first_difference(error.tensor, *(forms.read(json.dumps(one[forms.NAME]), "") for _, one in said))
    has = ", ".join(f"{_words(kind)} on rank {rank}" for kind, (rank, _) in zip(kinds, said))
    change(error, problem=f"'{key}' is not of one kind on all ranks", reason=f"it is {has}",
           way_out="Give values of one kind and length under one key.")


def _sayings(reason):
    """[(rank, its attributes)]; empty if the reason is of another kind."""
    found, at = [], 0
    while match := _SAYS.match(reason, at):
        try:
            said, at = json.JSONDecoder().raw_decode(reason, match.end())
            attributes, = (one.get("attributes", {}) for one in said["tensors"].values())
        except (ValueError, KeyError, AttributeError):
            return []
        found.append((int(match[1]), attributes))
    return found


def _first_difference(key, one, other):
    """The first place where two forms differ, and what each has there."""
    while one.kind == other.kind and not one.is_leaf and not other.is_leaf and not one.is_by_number and not one.same:
        if one.is_mapping:
            parts, others = one.items(), other.items()
            if [name for name, _ in parts] != [name for name, _ in others]:
                break
        else:
            parts, others = enumerate(one.parts()), list(enumerate(other.parts()))
            if len(one.parts()) != len(others):
                break
        unlike = [(name, part, its) for (name, part), (_, its) in zip(parts, others) if not part.is_like(its)]
        if not unlike:
            break
        name, one, other = unlike[0]
        key = below(key, name)
    return key, one, other


def _words(form):
    if form.is_leaf:
        kind = form.kind.partition(" on ")[0]
        if kind.partition(" of ")[0] in forms.SEQUENCES.values():
            return f"a {kind.partition(' of ')[0]} of numbers or texts"
        if form.is_open:
            return "a dict with arrays, or an empty one"
        return kind if kind == "None" else f"a value of the kind '{kind}'"
    if form.is_mapping:
        names = [name for name, _ in form.items()]
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        return f"a {form.kind} with {', '.join(map(repr, names[:8]))}{more}" if names else f"an empty {form.kind}"
    number = len(form.parts())
    return f"a {form.kind} of {number} value{'s' * (number != 1)}" if number else f"an empty {form.kind}"
