"""What scripts/bench makes of its programs' output: turns, ratios, goals, tables."""
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "lab" / "benchmarks"))
import against
import goals
import headers
import operations
import pieces
import turns

# Run K of contestant I takes (K + 1) x SECONDS[I], so that the first repetition counts least.
PROGRAM = """
import json, sys
names = json.loads(sys.argv[1])
print("noise")
print("@", json.dumps({"np": 2, "contestants": [
    {"measure": m, "what": w, "yardstick": y, "bytes": 1e9} for m, w, y, _ in names]}), flush=True)
runs = [0] * len(names)
for line in sys.stdin:
    if not line.startswith("run "):
        break
    i = int(line[4:])
    runs[i] += 1
    seconds = 100 if runs[i] == 1 else names[i][3] * (1 + 0.1 * runs[i])
    print("@", json.dumps({"seconds": seconds, "cpu_seconds": runs[i],
                           "also": [{"measure": "later", "what": "Cairn's writer", "seconds": 2 * seconds}]
                           if names[i][1] == "Cairn" else []}), flush=True)
"""


def program(*contestants):
    return turns.Program("program", [sys.executable, "-c", PROGRAM, json.dumps(contestants)])


STEADY = [("save, steady", "Cairn", False, 1.0), ("save, steady", "POSIX a", True, 0.5),
          ("save, steady", "POSIX b", True, 2.0)]


def rows(repetitions=3):
    samples = {}
    programs = [program(*STEADY), program(("save, steady", "peer", False, 4.0))]
    try:
        turns.compete(programs, repetitions, 1, samples)
    finally:
        for one in programs:
            one.end()
    return samples, [row | {"mib": 954, "machine": "m", "date": "d"} for row in turns.rows(samples, 2, "one")]


# A stand-in for a program of Google Benchmark: its benchmarks and their times.
PIECES = """#!{python}
import json, sys
known = {known}
wanted = [one.split("=^")[1][:-1] for one in sys.argv if one.startswith("--benchmark_filter=^")]
if "--benchmark_list_tests" in sys.argv:
    print("\\n".join(known))
else:
    print(json.dumps({{"benchmarks": [{{"cpu_time": known[wanted[0]], "real_time": 8 * known[wanted[0]],
                                      "time_unit": "us"}}]}}))
"""


class Pieces(unittest.TestCase):
    def test_two_trees_take_turns_at_what_both_have(self):
        with tempfile.TemporaryDirectory() as folder:
            both = []
            for name, known in ("this", {"a/1": 2.0, "b/manual_time": 1.0}), ("other", {"a/1": 3.0, "b/manual_time": 2.0, "c": 1}):
                both.append(Path(folder) / name)
                both[-1].write_text(PIECES.format(python=sys.executable, known=known))
                both[-1].chmod(0o755)
            self.assertEqual(list(pieces.compare(*both, [], 3)),
                             [("a/1", [1.5] * 3), ("b/manual_time", [2.0] * 3)])
            self.assertEqual(pieces.seconds(both[0], [], "b/manual_time"), 8e-6)


class Turns(unittest.TestCase):
    def test_drops_the_first_repetition_and_keeps_the_others(self):
        samples, _ = rows()
        self.assertEqual(sorted(samples["save, steady", "Cairn"]["seconds"]), [1.2, 1.3, 1.4])

    def test_further_starts_add_to_the_samples(self):
        samples = {}
        for start in range(2):
            one = program(*STEADY)
            turns.compete([one], 2, start, samples)
            one.end()
        self.assertEqual(sorted(samples["save, steady", "Cairn"]["seconds"]), [1.2, 1.2, 1.3, 1.3])

    def test_what_reads_comes_after_all_that_writes(self):
        one = program(("restore, N to N", "Cairn", False, 1.0), *STEADY)
        ran, run = [], one.run
        one.run = lambda number: ran.append(number) or run(number)
        turns.compete([one], 2, 1, {})
        one.end()
        self.assertEqual(ran[9:], [0, 0, 0])

    def test_ratios_are_to_the_best_yardstick(self):
        ratios = {row["what"]: row["ratio_to_raw"] for row in rows()[1] if row["measure"] == "save, steady"}
        self.assertAlmostEqual(ratios["Cairn"], 0.5)
        self.assertAlmostEqual(ratios["POSIX a"], 1)
        self.assertAlmostEqual(ratios["POSIX b"], 0.25)
        self.assertAlmostEqual(ratios["peer"], 0.125)

    def test_what_a_turn_says_besides_is_a_row_of_its_own(self):
        later = [row for row in rows()[1] if row["measure"] == "later"]
        self.assertEqual([row["what"] for row in later], ["Cairn's writer"])
        self.assertAlmostEqual(later[0]["median"], 1 / 2.6)

    def test_minimum_is_the_slowest(self):
        row = next(row for row in rows()[1] if row["what"] == "peer")
        self.assertLess(row["min"], row["median"])
        self.assertAlmostEqual(row["max"], 1 / (4 * 1.2))

    def test_a_program_that_ends_early_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "broken ended with status 3"):
            turns.Program("broken", [sys.executable, "-c", "raise SystemExit(3)"])


class Goals(unittest.TestCase):
    def test_values(self):
        reached = {text: (value, goal, more) for text, value, goal, more in goals.of_one_run(rows()[1])}
        self.assertAlmostEqual(reached["save, steady: x raw"][0], 0.5)
        self.assertAlmostEqual(reached["save, steady: x the best peer, overwriting (peer)"][0], 4)

    def test_says_what_is_missed(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            goals.show(rows()[1])
        self.assertRegex(out.getvalue(), r"MISSED +0\.500 \(goal >= 0\.9\) save, steady: x raw")
        self.assertRegex(out.getvalue(), r"reached +4\.000 \(goal >= 1\.0\) save, steady: x the best peer")


class FewerBytes(unittest.TestCase):
    def test_blocks_that_are_there_already(self):
        rows = [{"measure": measure, "what": f"{tenths} tenths unchanged, {disk}", "bytes": size, "ratio": 0.3, "together": 1.01}
                for tenths, size in ((9, 100), (0, 1000)) for disk in ("1 GB/s", "the disk as it is")
                for measure, size in (("save in full", 1000), ("save of what differs", size))]
        self.assertEqual([figure[1:3] for figure in goals.of_unchanged(rows)],
                         [(0.1, 0.11), (0.3, 0.2), (1.01, 1.02), (1.01, 1.02)])

    def test_codecs(self):
        rows = [{"measure": codec, "what": what + how, "bytes": size, "ratio": ratio}
                for what in ("weights", "field", "noise") for how in ("", ", paced")
                for codec, size, ratio in (("none", 100, 1), ("blosc", 80, 0.84))]
        by = {figure[0]: goals.line(*figure) for figure in goals.of_codecs(rows)}
        self.assertEqual(len(by), 7)
        self.assertIn("MISSED     1.250", by["bfloat16 weights, blosc: times smaller"])
        self.assertIn("reached    1.050", by["field, blosc, 200 MB/s a rank: time, x stored bytes"])
        self.assertIn("not measured", by["Gray-Scott, blosc: stored, x raw (goal: as zstd -1)"])
        rows.append({"measure": "zstd -1 by hand", "what": "field", "ratio": 0.79})
        by = {figure[0]: goals.line(*figure) for figure in goals.of_codecs(rows)}
        self.assertIn("MISSED     0.800", by["Gray-Scott, blosc: stored, x raw (goal: as zstd -1)"])

    def test_space_of_what_tests_print(self):
        text = "1: on btrfs:\n1: [ SPACE    ] ten checkpoints take 1.88 of one\n1: on xfs:\n1: [ SPACE    ] "
        self.assertEqual([figure[1] for figure in goals.of_space(text + "ten checkpoints take 2.5 of one\n")],
                         [1.88, 2.5, None])
        self.assertEqual([figure[1] for figure in goals.of_space("on btrfs:\non xfs:\nten checkpoints take 2.5 of one")],
                         [None, 2.5, None])
        self.assertEqual([figure[1] for figure in goals.of_space("eight saves under LoRA take 1.0012 of the")],
                         [None, None, 1.0012])


class Against(unittest.TestCase):
    SLOWER = [("save, steady", "Cairn", False, 2.0), ("save, steady", "POSIX a", True, 0.5),
              ("only", "here", False, 1.0)]

    def compete(self, repetitions=4):
        samples, ran = ({}, {}), []
        programs = [program(*STEADY), program(*self.SLOWER)]
        for name, one in zip(("this", "other"), programs):
            one.run = lambda number, name=name, run=one.run: ran.append((name, number)) or run(number)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            against.compete(programs, repetitions, 1, samples)
        for one in programs:
            one.end()
        return samples, ran, out.getvalue()

    def test_both_run_each_shared_contest_one_after_the_other(self):
        samples, ran, out = self.compete()
        for first, second in zip(ran[::2], ran[1::2]):
            self.assertEqual({first[0], second[0]}, {"this", "other"})
            self.assertEqual(first[1], second[1])
        self.assertEqual(len(ran), 2 * 2 * 5)
        self.assertEqual([len(one["save, steady", "Cairn"]["seconds"]) for one in samples], [4, 4])
        self.assertIn("only one of the trees has it: only, here", out)
        self.assertIn("save, steady, POSIX b", out)

    def test_who_is_first_alternates(self):
        _, ran, _ = self.compete()
        firsts = [name for name, number in ran[::2] if number == 0]
        self.assertEqual(firsts, [firsts[0], firsts[1]] * 2 + [firsts[0]])
        self.assertNotEqual(firsts[0], firsts[1])

    def test_rows_have_ratios_to_raw_and_to_the_other(self):
        samples, _, _ = self.compete(3)
        table = {row["what"]: row for row in against.rows(*samples)}
        self.assertAlmostEqual(table["Cairn"]["ratio"]["median"], 2)
        self.assertAlmostEqual(table["POSIX a"]["ratio"]["max"], 1)
        self.assertAlmostEqual(table["Cairn"]["this"]["median"], 0.5)
        self.assertAlmostEqual(table["Cairn"]["other"]["median"], 0.25)
        self.assertLess(table["Cairn"]["this"]["min"], 0.5)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            against.show(list(table.values()), "one, 16 MiB")
        self.assertRegex(out.getvalue(), r"Cairn +0\.50 \(.*\) +0\.25 \(.*\) +2\.00 \(2\.00 \.\. 2\.00\)")


class Operations(unittest.TestCase):
    def test_counts_calls_on_paths_under_the_directory(self):
        lines = ["7 openat(AT_FDCWD</work>, \"/d/run/a\", O_RDONLY) = 3</d/run/a>",
                 "7 newfstatat(3</d/run/a>, \"\", {st_mode=S_IFREG}, AT_EMPTY_PATH) = 0",
                 "7 fsync(3</d/run/a> <unfinished ...>",
                 "8 openat(AT_FDCWD</work>, \"/etc/hosts\", O_RDONLY) = 4</etc/hosts>",
                 "7 <... fsync resumed>) = 0",
                 "7 fsync(5</etc/hosts>) = 0",
                 "rename(\"/d/run/a\", \"/d/run/b\") = 0",
                 "7 pwrite64(3</d/run/a>, \"/d/run\", 6, 0) = 6",
                 "7 unlinkat(6</d/run>, \"b\", 0) = 0"]
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, "trace")
            trace.write_text("\n".join(lines))
            self.assertEqual({kind: n for kind, n in operations.count(trace, "/d/run").items() if n},
                             {"open": 1, "fsync": 1, "rename": 1, "unlink": 1})


class Report(unittest.TestCase):
    def test_table_has_each_row_with_its_ratio(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            file.write_text(json.dumps(rows()[1]))
            ran = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "bench-report", file, "--no-plots"],
                                 check=True, capture_output=True, text=True)
        self.assertRegex(ran.stdout, r"\| save, steady \| \*\*Cairn\*\* \| [0-9.]+ \| 0\.77 \| [0-9.]+ \| 0\.50 \|")
        self.assertIn("2 ranks, 954 MiB, 3 interleaved repetitions", ran.stdout)


class Headers(unittest.TestCase):
    def test_time_of_what_a_header_includes_is_told_apart(self):
        events = [{"ts": start, "dur": length, "args": {"detail": name}} for name, start, length in [
            ("inner", 1e6, 2e6), ("outer", 0, 8e6), ("innermost", 1e6, 1e6), ("last", 4e6, 4e6), ("other", 8e6, 2e6)]]
        self.assertEqual(sorted(headers.seconds_in(events, 0.5)),
                         [["inner", 1, 0.5], ["innermost", 0.5, 0.5], ["last", 2, 2], ["other", 1, 1], ["outer", 4, 1]])

    def test_names_are_those_that_sources_include(self):
        for path, name in [("include/cairn/box.hpp", "cairn/box.hpp"), ("src/base/text.hpp", "base/text.hpp"),
                           ("src/io/../base/text.hpp", "base/text.hpp")]:
            self.assertEqual(headers.short(f"{ROOT}/{path}"), name)
        self.assertEqual(headers.short("/usr/lib/gcc/x/12/../../../../include/c++/12/bits/stl_map.h"), "bits/stl_map.h")
        self.assertEqual(headers.short("/usr/include/google/protobuf/arena.h"), "google/protobuf/arena.h")


if __name__ == "__main__":
    unittest.main()
