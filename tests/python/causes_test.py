"""What an exception of the application becomes."""

import gc
import traceback
import weakref

import cairn
import numpy as np
from case import Case


class Causes(Case):
    """What the application raises is the cause of the error that all ranks get, with its traceback."""

    def test_of_everything_that_is_called(self):
        def fails(*given):
            raise KeyError("mine")

        class Fails(dict):
            def __setitem__(self, *given):
                fails()

        class Speaks:
            __dlpack__ = __dlpack_device__ = fails

        manager = self.manager(hooks={"before_save": lambda step: fails() if step == 9 else None})
        manager.save(1, {"x": 1})
        saving = cairn.CheckpointManager(self.directory + "2",
                                         hooks={"savers": [cairn.Saver("s", fails, fails)]})
        self.addCleanup(saving.close)
        rows = {"r": cairn.ragged(np.zeros((2, 2)), deal=fails)}
        manager.save(2, rows)
        for call in (
            lambda: manager.save(9, {"x": 1}), lambda: manager.save(3, {"x": 1}, policy=fails),
            lambda: manager.save_async(3, {"x": Speaks()}),
            lambda: manager.restore(1, Fails(x=0)), lambda: manager.restore_latest(rows),
            lambda: saving.save(1, {"x": 1}),
        ):
            error = self.refuses("application", "mine", call)
            self.assertIsInstance(error.__cause__, KeyError)
            self.assertIn("fails",
                          [one.name for one in traceback.extract_tb(error.__cause__.__traceback__)])

    def test_an_error_of_cairns_own(self):
        own = cairn.Error("by hand")
        own.code, own.problem, own.reason, own.way_out, own.tensor, own.path = "io", "by hand", "", "", "", ""

        def fails(step):
            raise own

        manager = self.manager(hooks={"before_save": fails})
        try:
            manager.save(1, {"x": 1})
        except cairn.Error as error:
            self.assertIn("fails", [one.name for one in traceback.extract_tb(error.__traceback__)])
            self.assertEqual((error.code, error.problem.count("by hand"), error.__cause__), ("io", 1, None))
        # An error that the library finds itself has no cause, whatever was raised before.
        error = self.refuses("not_found", "7", self.manager_elsewhere().restore, 7, {"x": 1})
        self.assertIsNone(error.__cause__)

    def manager_elsewhere(self):
        self.directory += "2"
        return self.manager()

    def test_none_is_kept(self):
        class Held:
            pass

        def fails(step):
            held = Held()
            gone.append(weakref.ref(held))
            raise ValueError("with what it holds")

        gone = []
        manager = self.manager(hooks={"before_save": fails}, **{"async": {"on_change": fails}})
        self.refuses("application", "ValueError", manager.save, 1, {"x": 1})
        gc.collect()
        self.assertEqual([one() for one in gone], [None] * len(gone))
