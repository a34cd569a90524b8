"""What scripts/campaign soak makes of its samples of ranks: growth, or none."""
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab/campaigns"))
# pylint: disable=wrong-import-position
from soak_samples import Samples


def sampled(seconds, memory=lambda at: 5000, descriptors=lambda at: 9, threads=lambda at: 3, files=lambda at: 4,
            saves=lambda at: None):
    """Samples of one rank of `job`, one each second."""
    samples = Samples()
    samples.ranks = {"job": {1: [(100.0 + at, saves(at), memory(at), descriptors(at), threads(at))
                                 for at in range(seconds + 1)]}}
    samples.files = {"job": [files(at) for at in range(seconds + 1)]}
    return samples


class TheJudge(unittest.TestCase):
    def test_takes_a_rank_that_stays_as_it_is(self):
        # A save may have more for a moment, and a rank may grow at first.
        samples = sampled(200, memory=lambda at: 3000 + 100 * min(at, 20), descriptors=lambda at: 9 + at % 4)
        self.assertEqual(samples.wrong("job"), [])
        self.assertEqual(samples.unjudged("job"), [])

    def test_a_rank_has_not_settled_before_its_second_save(self):
        # On a busy machine: each of the first saves takes memory.
        samples = sampled(200, saves=lambda at: 7 + at // 50, memory=lambda at: 5000 + 4000 * min(at // 50, 2))
        self.assertEqual(samples.wrong("job"), [])
        self.assertEqual(samples.unjudged("job"), [])
        samples = sampled(200, saves=lambda at: 7 + at // 50, memory=lambda at: 5000 + 30 * at)
        self.assertEqual(len(samples.wrong("job")), 1)
        samples = sampled(200, saves=lambda at: 7 + at // 150, memory=lambda at: 5000 + 4000 * (at // 150))
        self.assertEqual(len(samples.unjudged("job")), 1)

    def test_finds_what_grows(self):
        for what, grows in (("memory", lambda at: 5000 + 20 * at), ("descriptors", lambda at: 9 + at // 100),
                            ("threads", lambda at: 3 + at // 100), ("files", lambda at: 4 + at // 10)):
            found = sampled(200, **{what: grows}).wrong("job")
            self.assertEqual(len(found), 1, found)
            self.assertIn(what, found[0])

    def test_files_that_come_and_go_are_no_growth(self):
        samples = sampled(200, files=lambda at: 4 + at // 10)
        self.assertEqual(samples.wrong("job", spare_files=11), [])
        self.assertEqual(len(samples.wrong("job", spare_files=10)), 1)

    def test_descriptors_that_come_and_go_are_no_growth(self):
        samples = sampled(200, descriptors=lambda at: 9 + at // 100)
        self.assertEqual(samples.wrong("job", spare_descriptors=2), [])
        self.assertEqual(len(samples.wrong("job", spare_descriptors=0)), 1)

    def test_knows_two_processes_of_one_number(self):
        samples = Samples()
        with mock.patch("soak_samples.held_by", side_effect=[("100", (5000, 9, 3)), ("200", (4000, 8, 3))]):
            samples.take("job", [1])
            samples.take("job", [1])
        self.assertEqual([len(one) for one in samples.ranks["job"].values()], [1, 1])

    def test_does_not_pass_a_job_of_short_lives(self):
        # A rank that grows, but over too short a time to tell.
        samples = sampled(59, memory=lambda at: 5000 + 1000 * at)
        self.assertEqual(samples.wrong("job"), [])
        self.assertEqual(len(samples.unjudged("job")), 1)
        self.assertIn("no rank lived for 60 s", samples.unjudged("job")[0])
        self.assertIn("no rank lived for 60 s", samples.text("job"))
        self.assertEqual(sampled(60).unjudged("job"), [])

    def test_does_not_pass_a_job_of_which_there_are_no_samples(self):
        self.assertEqual(len(Samples().unjudged("job")), 1)


if __name__ == "__main__":
    unittest.main()
