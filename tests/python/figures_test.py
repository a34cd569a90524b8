"""What a manager reports as dicts has every member of the structs of C++, and its text explains each."""

import inspect
import os
import re

import cairn
import numpy as np
from case import Case

HEADERS = os.path.join(os.path.dirname(__file__), "../../include/cairn")


def members(header, name):
    """The figures of a struct: its members, and what it computes of them. StageSeconds::sum() is sum(….values())."""
    with open(os.path.join(HEADERS, header), encoding="utf-8") as file:
        text = re.sub(r"//.*", "", file.read())
    inner = re.compile(r"^  struct (\w+) \{\n(.*?)^  \};\n", re.MULTILINE | re.DOTALL)
    structs = dict(inner.findall(text))
    structs |= dict(re.findall(r"^struct (\w+) \{\n(.*?)^\};\n", inner.sub("", text), re.MULTILINE | re.DOTALL))
    found = set()
    for declared in re.findall(r"^ +(?:[A-Z]\w+|double|int|bool|std::[\w:]+(?:<[\w:]+>)?) (.+)$", structs[name], re.MULTILINE):
        found |= set(re.findall(r"(\w+)\(\) const", declared) or re.findall(r"(\w+)(?: = [^,;]+)?[,;]", declared))
    return found - {"sum"}


class Figures(Case):
    def test_python_has_what_cpp_has(self):
        manager = self.manager()
        manager.save(1, {"u": np.zeros(1000)})
        manager.save_async(2, {"u": np.zeros(1000)})
        manager.wait()
        told = manager.statistics()
        save = told["last"][1]
        text = inspect.getdoc(cairn.CheckpointManager.statistics)
        for struct, figures in [("Statistics", told), ("SaveStatistics", save), ("StageSeconds", save["seconds"]),
                                ("Slowest", save["slowest"]), ("RankShare", save["shares"][0])]:
            self.has(figures, members("statistics.hpp", struct), text)
        for method, header, struct, figures in [
                ("restore", "restore_options.hpp", "RestoreReport", manager.restore(2, {"u": np.zeros(1000)})),
                ("steps", "checkpoint_manager.hpp", "StepInfo", manager.steps()[0])]:
            self.has(figures, members(header, struct), inspect.getdoc(getattr(cairn.CheckpointManager, method)))

    def has(self, figures, wanted, text):
        self.assertGreater(len(wanted), 1)
        self.assertEqual(set(figures), wanted)
        for key in wanted:
            self.assertRegex(text, rf"\b{key}\b")

    def test_values(self):
        manager = self.manager()
        self.assertEqual(manager.statistics()["since_save_seconds"], -1)
        manager.save(1, {"u": np.zeros(1000)})
        manager.save_async(2, {"u": np.zeros(1000)})
        manager.wait()
        told = manager.statistics()
        self.assertEqual((told["committed"], told["asynchronous"], told["on_nodes"]), (2, 1, 0))
        self.assertEqual(told["plans_reused"], sum(save["plan_reused"] for save in told["last"]))
        self.assertEqual(told["pool_bytes"], told["pool_most_bytes"])
        self.assertGreaterEqual(told["pool_bytes"], 8000)
        self.assertGreaterEqual(told["since_save_seconds"], 0)
        self.assertEqual([save["files"] for save in told["last"]], [1, 1])
        for save in told["last"]:
            self.assertEqual(save["slowest"], {"rank": 0, "waiting_seconds": 0.0})
            self.assertEqual([one["bytes"] for one in save["shares"]], [save["bytes"]])
            self.assertEqual(save["gigabytes_per_second"], save["bytes"] / 1e9 / save["total_seconds"])

    def test_calls_that_fail_have_blocked_the_program(self):
        manager = self.manager()
        manager.save(1, {"u": np.zeros(1000)})
        before = manager.statistics()
        self.refuses("already_exists", "step 1", manager.save, 1, {"u": np.zeros(1000)})
        after = manager.statistics()
        self.assertEqual((after["committed"], after["failed"]), (1, 1))
        self.assertGreater(after["blocked_seconds"], before["blocked_seconds"])
