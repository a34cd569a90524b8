"""Checkpoints of other versions of a program of PyTorch: hooks={"migrate": f}."""

import unittest

import torch_jobs  # noqa: F401  # first: it sets what torch reads when it is imported
from torch_cases import Case, plain

import torch

import cairn.torch

torch.set_num_threads(1)


class Scaled(torch.nn.Module):
    """The second version of a model, which was a Linear."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(2))


def made(version, seed):
    """Three versions: the model was called net, is a Scaled later, and has a history at last."""
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2) if version == 1 else Scaled()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.5)
    sum(one.sum() for one in model.parameters()).backward()
    optimizer.step()
    state = {"net" if version == 1 else "model": model, "optimizer": optimizer, "step": seed}
    if version == 3:
        state["history"] = [torch.full((2,), float(seed))]
    return state


def migrate_to(version):
    def migrate(saved_by, how):
        if saved_by.version == "1":
            how.options["rename"]["model/lin.*"] = "net/*"
            how.options["may_be_missing"].add("model/scale")
            how.finish = lambda: how.state["model"].scale.fill_(float(how.state["step"]))
        if version == 3:
            how.options["may_be_missing"].add("history/0")

    return migrate


class Versions(Case):
    def save_and_restore(self, saved, version, migrate=None):
        self.directory += "-"

        def manager(number, **options):
            return self.manager(store={"application": {"version": str(number)}}, **options)

        old, new = made(saved, 7), made(version, 1)
        with manager(saved) as one:
            one.save(1, old)
        with manager(version, hooks={"migrate": migrate or migrate_to(version)}) as one:
            one.restore_latest(new)
        return old, new

    def test_each_version_reads_the_older_ones(self):
        for version in (2, 3):
            for saved in range(1, version + 1):
                old, new = self.save_and_restore(saved, version)
                its = old["net"] if saved == 1 else old["model"].lin
                self.assertEqual(plain(new["model"].lin.state_dict()), plain(its.state_dict()))
                self.assertEqual(plain(new["optimizer"].state_dict()), plain(old["optimizer"].state_dict()))
                self.assertEqual(new["step"], 7)
                self.assertEqual(plain(new["model"].scale), plain(torch.full((2,), 7.0 if saved == 1 else 1.0)))
                if version == 3:
                    self.assertEqual(plain(new["history"][0]), plain(torch.full((2,), 7.0 if saved == 3 else 1.0)))
        self.refuses("invalid_argument", "newer", self.save_and_restore, 3, 2)

    def test_a_tensor_of_the_migrations_own(self):
        def migrate(saved_by, how):
            how.options["rename"] = {"model/lin.*": "net/*", "bias": "net/bias"}
            how.options["may_be_missing"].add("model/scale")
            how.extra["bias"] = torch.zeros(2)
            how.finish = lambda: how.state["model"].scale.copy_(how.extra["bias"])

        old, new = self.save_and_restore(1, 2, migrate)
        self.assertEqual(plain(new["model"].scale), plain(old["net"].bias.detach()))


if __name__ == "__main__":
    unittest.main()
