"""Checkpoints of other versions of an application: hooks={"migrate": f}."""

import glob

import cairn
import numpy as np
from case import BUILT, Case, bits

CELSIUS = np.array([0.5, 20, -40, 3e4], np.float32)
KELVIN = CELSIUS + np.float64(273.15)


def migrate(saved_by, how):
    if not cairn.is_newer_version("2.0", saved_by.version):
        return  # 2.0 and later have kelvin
    how.options["rename"]["kelvin"] = "celsius"
    how.options["convert_keys"]["kelvin"] = "exact"  # float32 was stored

    def finish():
        how.state["kelvin"] += 273.15

    how.finish = finish


class Toy:
    """Three versions: the first has a temperature in degrees Celsius, as float32; the second in kelvin; the
    third a pressure, a mode and words, too."""

    def __init__(self, version, full=False):
        self.version, fields = version, {}
        self.state = {"fields": fields, "clock": {"step": version if full else 0}}
        if version == 1:
            fields["celsius"] = CELSIUS.copy() if full else np.zeros(4, np.float32)
        else:
            fields["kelvin"] = KELVIN.copy() if full else np.zeros(4)
        if version == 3:
            fields["pressure"] = np.arange(4.0) if full else np.full(4, -1.0)
            self.state.update(mode="new" if full else "own", words=["a", "b"] if full else [])
        self.heard = []

    def migrate(self, saved_by, how):
        self.heard.append(saved_by)
        if saved_by.version == "1":
            how.options["rename"]["fields/kelvin"] = "fields/celsius"
            how.options["convert_keys"]["fields/kelvin"] = "exact"
        if self.version == 3:
            how.options["may_be_missing"] |= {"fields/pressure", "mode", "words"}

        def finish():
            self.state["clock"]["seen"] = self.state["clock"]["step"]  # numbers are there, too
            if saved_by.version == "1":
                how.state["fields"]["kelvin"] += 273.15
            if self.version == 3:
                how.state["fields"]["pressure"][:] = 1013.25

        how.finish = finish


class Versions(Case):
    def toy_manager(self, version, migrate=None, **options):
        hooks = {"migrate": migrate} if migrate else {}
        store = {"application": {"name": "toy", "version": str(version), "commit": f"c{version}"}}
        store.update(options.pop("store", {}))
        return self.manager(store=store, hooks=hooks, **options)

    def save(self, version, step=None, **options):
        with self.toy_manager(version, max_to_keep=0, **options) as manager:
            return manager.save(step or version, Toy(version, full=True).state)

    def test_the_function_of_the_page(self):
        with self.toy_manager("1.3") as manager:
            manager.save(1, {"celsius": CELSIUS})
        for version in ("2.1", "2.2"):
            state = {"kelvin": np.zeros(4)}
            with self.toy_manager(version, migrate) as manager:
                step = manager.restore_latest(state)["step"]
                self.assertEqual(bits(state["kelvin"]), bits(KELVIN), version)
                manager.save(step + 1, state)

    def test_each_version_reads_the_older_ones(self):
        for form in ["bundle"] + (["hdf5"] if "hdf5" in BUILT else []):
            self.directory += form
            for version in (1, 2, 3):
                self.save(version, store={"format": form})
            for version in (2, 3):
                for saved in range(1, version + 1):
                    toy = Toy(version)
                    with self.toy_manager(version, toy.migrate) as manager:
                        report = manager.restore(saved, toy.state)
                    wanted = Toy(version, full=saved == version).state
                    wanted["clock"], wanted["fields"]["kelvin"] = {"step": saved}, KELVIN
                    if saved < version:
                        wanted["clock"]["seen"] = saved
                        if version == 3:
                            wanted["fields"]["pressure"] = np.full(4, 1013.25)
                    self.assertEqual(toy.state.keys(), wanted.keys())
                    for name, array in wanted["fields"].items():
                        self.assertEqual(bits(toy.state["fields"][name]), bits(array), (name, saved, version))
                    for name in wanted.keys() - {"fields"}:
                        self.assertEqual(toy.state[name], wanted[name], (name, saved, version))
                    self.assertEqual(len(report["kept_keys"]), 3 if version == 3 and saved < 3 else 0)
                    its = [cairn.Application("toy", str(saved), f"c{saved}")]
                    self.assertEqual(toy.heard, its if saved < version else [])
            for version, saved in ((1, 2), (1, 3), (2, 3)):
                toy = Toy(version)
                with self.toy_manager(version, toy.migrate) as manager:
                    self.refuses("invalid_argument", "newer than this one", manager.restore, saved, toy.state)
                    self.refuses("invalid_argument", "newer than this one", manager.restore_latest, toy.state)
                self.assertEqual((toy.state["clock"], toy.heard), ({"step": 0}, []))

    def test_values_of_the_migrations_own(self):
        self.save(1)
        held = []

        def migrate(saved_by, how):
            how.options["rename"] = {"old/*": "fields/*", "seen": "clock/step"}
            how.options["may_be_missing"] = ["fields/kelvin"]
            how.extra = {"old": {"celsius": np.zeros(4, np.float32)}, "seen": 0}
            held.append(how.extra)

            def finish():
                how.state["fields"]["kelvin"][:] = how.extra["old"]["celsius"] + np.float64(273.15)

            how.finish = finish

        toy = Toy(2)
        with self.toy_manager(2, migrate) as manager:
            report = manager.restore_latest(toy.state, may_be_missing="never", all_may_be_missing=True)
        self.assertEqual(report["unused_keys"], [])
        self.assertEqual(bits(toy.state["fields"]["kelvin"]), bits(KELVIN))
        self.assertEqual((held[0]["seen"], toy.state["clock"], list(toy.state)), (1, {"step": 1}, ["fields", "clock"]))

    def test_what_the_call_gave_stays_where_the_migration_says_nothing(self):
        with self.toy_manager(1) as manager:
            manager.save(1, {"a": np.float32([1, 2]), "b": 3})
        given, seen = {"x": "a"}, []

        def migrate(saved_by, how):
            seen.append(how.options)
            how.options["rename"]["y"] = "b"

        state = {"x": np.zeros(2), "y": 0, "z": "own"}
        with self.toy_manager(2, migrate) as manager:
            manager.restore(1, state, rename=given, convert="round", may_be_missing="z", strict=True)
        self.assertEqual((state["x"].tolist(), state["y"], state["z"]), ([1, 2], 3, "own"))
        self.assertEqual(given, {"x": "a"})
        self.assertEqual((seen[0]["convert"], seen[0]["may_be_missing"]), ("round", {"z"}))

    def test_a_checkpoint_that_is_tried_next_is_not_migrated(self):
        self.save(2, 1)
        prefix = self.save(1, 2)
        _, _, number, offset = cairn.open(prefix)["fields/celsius"].slices[0][:4]
        with open(sorted(glob.glob(prefix + ".data-*"))[number], "r+b") as file:
            file.seek(offset)
            byte = file.read(1)
            file.seek(offset)
            file.write(bytes([byte[0] ^ 1]))
        toy = Toy(2)
        with self.toy_manager(2, toy.migrate) as manager:
            self.assertEqual(manager.restore_latest(toy.state)["step"], 1)
        self.assertEqual(len(toy.heard), 1)
        self.assertEqual(bits(toy.state["fields"]["kelvin"]), bits(KELVIN))
        self.assertEqual(toy.state["clock"], {"step": 2})

    def test_from_the_nodes(self):
        nodes = {"directory": self.directory + "-nodes", "protection": "none"}
        with self.toy_manager(1, tier=nodes) as manager:
            for step in (1, 2):
                manager.save(step, Toy(1, full=True).state)
            self.assertTrue(manager.steps()[1]["on_nodes"])
        toy = Toy(3)
        with self.toy_manager(3, toy.migrate, tier=nodes) as manager:
            self.assertEqual(manager.restore_latest(toy.state)["step"], 2)
            self.assertEqual(bits(toy.state["fields"]["kelvin"]), bits(KELVIN))
            self.assertEqual((toy.state["mode"], toy.state["clock"]), ("own", {"step": 1, "seen": 1}))

    def test_what_a_migration_does_wrong(self):
        self.save(1)

        def raising(saved_by, how):
            raise KeyError("no way")

        def ending_badly(saved_by, how):
            Toy(2).migrate(saved_by, how)
            how.finish = lambda: 1 / 0

        def option(name, value):
            def migrate(saved_by, how):
                how.options[name] = value
            return migrate

        for migrate, code, words, cause in [
                (raising, "application", "hooks.migrate: KeyError: 'no way'", KeyError),
                (option("renames", {"x": "y"}), "invalid_argument", "rename", None),
                (option("convert", len), "invalid_argument", "convert", None),
                (option("rename", {"fields/kelvin": "fields/fahrenheit"}), "not_found", "fields/fahrenheit", None),
                (lambda saved_by: None, "application", "hooks.migrate: TypeError", TypeError),
                (ending_badly, "application", "the end of hooks.migrate raised ZeroDivisionError", ZeroDivisionError)]:
            toy = Toy(2)
            with self.toy_manager(2, migrate) as manager:
                error = self.refuses(code, words, manager.restore, 1, toy.state)
                if cause is not None:
                    self.assertIsInstance(error.__cause__, cause)
            if migrate is not ending_badly:
                self.assertEqual((toy.state["fields"]["kelvin"].tolist(), toy.state["clock"]), ([0] * 4, {"step": 0}))
        self.refuses("invalid_argument", "hooks.migrate", self.toy_manager, 2, [raising])

    def test_versions_in_order(self):
        self.assertTrue(cairn.is_newer_version("1.10", "1.9"))
        self.assertFalse(cairn.is_newer_version("1.0-rc1", "1.0"))
