"""Optimizers and schedules of another class than those that were saved."""

import unittest

from torch_cases import Case, plain, random_states  # first: it sets what torch reads when it is imported

import torch

import cairn
import cairn.torch
from cairn.torch import classes
from says import says

torch.set_num_threads(1)
optim, schedules = torch.optim, torch.optim.lr_scheduler


class Mine(optim.AdamW):
    pass


class Wrapper(optim.Optimizer):
    """A wrapper like accelerate's, which is no kind of its own."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(vars(self)["inner"], name)

    param_groups = property(lambda self: self.inner.param_groups)
    state = property(lambda self: self.inner.state)

    def state_dict(self):
        return self.inner.state_dict()

    def load_state_dict(self, state):
        self.inner.load_state_dict(state)


def state_of(kind, schedule=None, steps=1, wrap=lambda one, net: one, **options):
    torch.manual_seed(steps)
    net = torch.nn.Linear(3, 2)
    optimizer = kind(net.parameters(), lr=0.1, **options)
    state = {"model": net, "optimizer": wrap(optimizer, net)}
    if schedule:
        state["schedule"] = schedule(optimizer)
    for _ in range(steps):
        net(torch.ones(3)).sum().backward()
        optimizer.step()
    return state


def seen(state):
    return plain({name: one.state_dict() for name, one in state.items()}), random_states()


class Kinds(Case):
    def restored(self, saved, state, **options):
        """What the log says when one state is restored into the other."""
        self.number = getattr(self, "number", 0) + 1
        with cairn.torch.Manager(f"{self.directory}-{self.number}") as manager:
            manager.save(1, saved)
            with self.assertLogs("cairn", "INFO") as logs:
                cairn._cairn.warn("the end")  # for there may be nothing else
                manager.restore(1, state, **options)
        return "\n".join(one.getMessage() for one in logs.records[1:])

    def test_what_an_optimizer_needs_and_was_not_saved(self):
        for wrap in (lambda one, net: one, cairn.torch.by_name):
            for kind, word in ((optim.AdamW, "step"), (optim.RMSprop, "step"), (Mine, "step")):
                saved, state = state_of(optim.SGD, momentum=0.9, wrap=wrap), state_of(kind, steps=0, wrap=wrap)
                before = seen(state)
                with self.assertRaises(cairn.Error) as caught:
                    self.restored(saved, state)
                error = caught.exception
                self.assertEqual((error.code, error.tensor), ("invalid_argument", "optimizer"), error)
                for one in (f"'{word}'", kind.__qualname__, "torch.optim.sgd.SGD"):
                    self.assertIn(one, str(error))
                self.assertEqual(seen(state), before)
        # A plain dict does not tell the optimizer's class.
        with self.assertRaisesRegex(cairn.Error, "'optimizer'.*'step'"):
            self.restored({"optimizer": state_of(optim.SGD, momentum=0.9)["optimizer"].state_dict()},
                          {"optimizer": state_of(optim.AdamW, steps=0)["optimizer"]})

    def test_what_is_shared_is_not_lacking(self):
        """A tensor that stands in several parameters' states is stored once."""
        for wrap in (lambda one, net: one, cairn.torch.by_name):
            saved, state = (state_of(optim.AdamW, steps=number, wrap=wrap) for number in (2, 0))
            theirs = getattr(saved["optimizer"], "optimizer", saved["optimizer"]).state
            for one in theirs.values():
                one["step"] = next(iter(theirs.values()))["step"]
            self.assertEqual(self.restored(saved, state), "")
            self.assertEqual(seen(state)[0], seen(saved)[0])

    def test_an_optimizer_with_a_dict_of_its_own(self):
        class Own(Wrapper):
            def state_dict(self):
                return {"param_groups": [7], "inner": self.inner.state_dict()}

            def load_state_dict(self, state):
                self.inner.load_state_dict(state["inner"])

        saved, state = (state_of(optim.AdamW, steps=number, wrap=lambda one, net: Own(one)) for number in (2, 0))
        self.assertEqual(self.restored(saved, state), "")
        self.assertEqual(seen(state)[0], seen(saved)[0])

    def test_an_optimizer_of_another_model(self):
        def state(*sizes, turned=False):
            net = torch.nn.Sequential(*(torch.nn.Linear(*one) for one in zip(sizes, sizes[1:])))
            optimizer = optim.AdamW(net.parameters())
            net(torch.ones(sizes[0])).sum().backward()
            optimizer.step()
            parts = {"model": {"net": net}, "optimizer": optimizer}
            return dict(reversed(parts.items())) if turned else parts

        for sizes, words in (((3, 3), "'model/net/1.bias' was saved, and is not in it"),
                             ((3, 3, 3, 3), "'model/net/2.weight' was not saved"),
                             ((3, 4, 3), "'model/net/0.weight' has the shape (4, 3), and had (3, 3)")):
            for turned in (False, True):
                with self.assertRaises(cairn.Error) as caught:
                    self.restored(state(3, 3, 3), state(*sizes, turned=turned))
                self.assertIn(words, str(caught.exception))
                self.assertIn("'optimizer", str(caught.exception))
        other = state(3, 3, 3)
        other["optimizer"] = optim.AdamW(other["model"]["net"][0].parameters())
        with self.assertRaisesRegex(cairn.Error, says("with the parameters that it had")):
            self.restored(state(3, 3, 3), other)

    def test_what_an_object_does_not_take(self):
        saved = state_of(optim.SGD, schedules.ConstantLR)
        state = state_of(optim.SGD, lambda one: schedules.ChainedScheduler([schedules.ConstantLR(one)], one), 0)
        with self.assertRaises(cairn.Error) as caught:
            self.restored(saved, state)
        error = caught.exception
        self.assertEqual((error.code, error.tensor), ("application", "schedule"))
        self.assertIsInstance(error.__cause__, KeyError)
        for words in ("'_schedulers'", "lr_scheduler.ChainedScheduler", "lr_scheduler.ConstantLR", "'model'", "'optimizer'",
                      "Make"):
            self.assertIn(words, str(error))

    def test_another_class(self):
        def cosine(one):
            return schedules.CosineAnnealingLR(one, 5)

        for saved, present, options, words in (
                ([optim.AdamW], [optim.AdamW], {}, None),
                ([optim.AdamW], [Mine], {}, None),
                ([Mine], [optim.AdamW], {}, None),
                ([optim.AdamW], [optim.RAdam], {}, ("'optimizer'", "adamw.AdamW", "radam.RAdam")),
                ([optim.AdamW], [optim.Adam], {}, ("'optimizer'", "adamw.AdamW", "adam.Adam")),
                ([Mine], [optim.Adam], {}, ("'optimizer'", "Mine", "adam.Adam")),
                ([optim.AdamW], [optim.AdamW], {"amsgrad": True}, ("'optimizer/param_groups/0'", "amsgrad")),
                ([optim.AdamW], [optim.AdamW], {"foreach": False}, None),
                ([optim.SGD, cosine], [optim.SGD, schedules.ConstantLR], {},
                 ("'schedule'", "lr_scheduler.CosineAnnealingLR", "lr_scheduler.ConstantLR")),
                ([optim.SGD, cosine], [optim.SGD, cosine], {}, None)):
            for wraps in ([lambda one, net: one] * 2, [lambda one, net: one, lambda one, net: Wrapper(one)],
                          [cairn.torch.by_name] * 2):
                with self.subTest(words=words, wraps=wraps):
                    told = self.restored(state_of(*saved, wrap=wraps[0]),
                                         state_of(*present, wrap=wraps[1], steps=0, **options))
                    if words is None:
                        self.assertEqual(told, "")
                    elif wraps[0] != wraps[1]:
                        self.assertNotIn("'optimizer' was a", told)
                    else:
                        for word in words:
                            self.assertIn(word, told)
                        self.assertEqual(told.count("\n"), 0, told)

    def test_a_checkpoint_that_does_not_say_it(self):
        """Earlier checkpoints and dicts do not tell the class either."""
        saved, state = state_of(optim.AdamW), state_of(optim.SGD, steps=0)
        was, classes.names_of = classes.names_of, lambda value: None
        try:
            self.assertEqual(self.restored(saved, state), "")
        finally:
            classes.names_of = was
        self.assertEqual(plain(state["model"].state_dict()), plain(saved["model"].state_dict()))
        dicts = {name: one.state_dict() for name, one in saved.items()}
        self.assertEqual(self.restored(dicts, state_of(optim.SGD, steps=0)), "")


if __name__ == "__main__":
    unittest.main()
