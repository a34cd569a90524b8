"""Values that no checkpoint can have, and what to give in their place."""

import sys

_AGAIN = "and give it back after the restore"
_WAYS = {
    "torch.Generator": f"Give value.get_state(), {_AGAIN}: value.set_state(…).",
    "numpy.random.Generator": f"Give value.bit_generator.state, a dict, {_AGAIN}: value.bit_generator.state = ….",
    "numpy.random.BitGenerator": f"Give value.state, a dict, {_AGAIN}: value.state = ….",
    "numpy.random.SeedSequence": "Give value.state, a dict, and make one of it: SeedSequence(**…).",
    "numpy.random.RandomState": f"Give value.get_state(), {_AGAIN}: value.set_state(…).",
    "random.Random": f"Give value.getstate(), {_AGAIN}: value.setstate(…).",
    **dict.fromkeys(("argparse.Namespace", "types.SimpleNamespace"), "Give vars(value), a dict."),
    **dict.fromkeys(("collections.deque", "range", "dict_keys", "dict_values", "array.array"), "Give list(value)."),
    **dict.fromkeys(("bytearray", "memoryview"), "Give bytes(value)."),
    **dict.fromkeys(("pathlib.PurePath", "decimal.Decimal", "fractions.Fraction", "uuid.UUID"), "Give str(value)."),
}


def name_of(kind):
    """The name of a class with its module, as programs write it: torch.Generator."""
    parts = kind.__module__.split(".")
    for count in range(1, len(parts)):
        module = ".".join(parts[:count])
        if getattr(sys.modules.get(module), kind.__qualname__, None) is kind:
            return f"{module}.{kind.__qualname__}"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def refusal(value, way_out):
    """What the value is, and what to do: `way_out`, or a hint that is known for its class."""
    names = list(map(name_of, type(value).__mro__))
    known = [_WAYS[name] for name in names if name in _WAYS]
    article = "an" if names[0][0] in "aeio" else "a"
    return f"it is {article} {names[0]}", known[0] if known else way_out
