#!/usr/bin/env python3
"""Tests slurm/cairn-job without Slurm: whether a job is requeued, goes on inside, or is given up."""
import os
import shutil
import subprocess
import sys
import unittest

from cairn_job_kit import CairnJobCase, ROOT


class CairnJob(CairnJobCase):
    def test_a_lost_node_leaves_the_rest_to_go_on(self):
        self.allocation("a,b,c")
        (self.place / "sinfo-b").write_text("down*")
        program = self.runs((9, 137), (12, 0))
        self.assertEqual(self.run_job(program, "--tier", "/shm/%n", "--ranks-per-node", "2", SLURM_JOB_NUM_NODES="3",
                                      SLURM_JOB_NODELIST="a,b,c", SLURM_JOB_CPUS_PER_NODE="4(x3)"), 0)
        self.assertIn("run 1: 6 on 3 a,b,c", self.output)
        self.assertIn("run 2: 4 on 2 a,c", self.output)
        self.assertIn("done, at step 12", self.output)
        self.assertEqual(self.requeued, [])
        self.assertFalse((self.place / "flush.log").exists())

    def test_it_goes_on_inside_only_with_progress(self):
        self.allocation("a,b")
        program = self.runs((9, 3), (9, 3), (9, 3))
        self.assertEqual(self.run_job(program, "--tier", "/shm/%n", SLURM_JOB_NUM_NODES="2"), 0)
        self.assertEqual((self.place / "runs").read_text(), "2\n")
        self.assertEqual(self.requeued, ["requeue 7"])
        self.assertTrue((self.place / "flush.log").exists())

    def test_it_does_not_go_on_inside(self):
        self.allocation("a,b")
        for state, options in ((3, ["--relaunches", "0"]), (75, []), (76, [])):
            (self.place / "runs").unlink(missing_ok=True)
            self.run_job(self.runs((9, state)), "--tier", "/shm/%n", *options)
            self.assertEqual((self.place / "runs").read_text(), "1\n")
        self.run_job(self.runs((9, 3)))  # without a tier
        self.assertNotIn("started again", self.output)

    def test_how_it_ended_is_noted(self):
        ended = self.checkpoints / ".cairn/ended"
        make = f'mkdir -p "$DIR/.cairn" && {self.save(9)}'
        ids = set()
        for status, nodes, lost in ((0, "", "0"), (75, "", "0"), (3, "", "0"), (137, "a,b", "1")):
            if nodes:
                self.allocation(nodes)
                (self.place / "sinfo-b").write_text("down*")
            self.run_job(f"{make}; exit {status}", "--no-requeue", SLURM_JOB_NUM_NODES="2")
            lines = ended.read_text().splitlines()
            self.assertEqual([lines[0], *lines[2:]], ["cairn-job 1", f"status {status}", "signals", f"lost-nodes {lost}"])
            ids.add(lines[1])
        self.assertEqual(len(ids), 4)
        self.run_job(f'{make}; kill -USR1 $PPID; sleep 1; read -rt 5 <> <(:); exit 0', "--no-requeue")
        self.assertIn("signals USR1\n", ended.read_text())
        self.assertEqual([one.name for one in ended.parent.iterdir()], ["ended"])

    def test_it_is_not_noted_behind_a_link_nor_on_a_full_disk(self):
        elsewhere = self.place / "elsewhere"
        elsewhere.mkdir()
        self.checkpoints.mkdir()
        (self.checkpoints / ".cairn").symlink_to(elsewhere)
        self.run_job(f"{self.save(9)}; exit 3", "--no-requeue")
        self.assertEqual(list(elsewhere.iterdir()), [])
        (self.checkpoints / ".cairn").unlink()
        (self.checkpoints / ".cairn").mkdir()
        self.finish(self.start("exit 3", "--no-requeue", disk_is_full=True))
        self.assertIn("how the program ended is not noted", self.output)
        self.assertEqual(list((self.checkpoints / ".cairn").iterdir()), [])

    def test_done(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 0"), 0)
        self.assertEqual(self.requeued, [])
        self.assertIn("done, at step 9", self.output)

    def test_stopped_to_go_on_is_requeued(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75"), 0)
        self.assertEqual(self.requeued, ["requeue 7"])

    def test_task_of_an_array_is_requeued_by_its_name(self):
        self.run_job(f"{self.save(9)}; exit 75", SLURM_ARRAY_JOB_ID="5", SLURM_ARRAY_TASK_ID="2")
        self.assertEqual(self.requeued, ["requeue 5_2"])

    def test_stopped_on_request_is_not_requeued(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 76"), 76)
        self.assertEqual(self.requeued, [])

    def test_no_requeue_leaves_it_to_the_caller(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75", "--no-requeue"), 75)
        self.assertEqual(self.run_job(f"{self.save(10)}; exit 4", "--no-requeue"), 75)
        self.assertEqual(self.requeued, [])

    def test_outside_of_slurm_it_says_75(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75", job=None), 75)
        self.assertEqual(self.requeued, [])

    def test_failure_of_requeueing_is_told(self):
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75", SCONTROL_STATUS="1"), 75)
        self.assertIn("could not be requeued", self.output)

    def test_failure_with_a_newer_checkpoint_is_requeued(self):
        self.saved(5)
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 137"), 0)
        self.assertEqual(self.requeued, ["requeue 7"])
        self.assertIsNone(self.record())

    def test_progress_at_steps_that_are_no_numbers_of_awk(self):
        for before, after in ((2**31 + 8, 2**31 + 9), (2**53, 2**53 + 1)):
            self.saved(before)
            self.assertEqual(self.run_job(f"{self.save(after)}; exit 9", "--restarts", "0"), 0)
            self.assertIn(f"at step {after} (1 more)", self.output)

    def test_killed_by_a_signal_before_any_checkpoint_is_requeued_and_given_up_in_the_end(self):
        for status, requeues in ((0, 1), (0, 1), (0, 1), (139, 0)):
            self.assertEqual(self.run_job("kill -SEGV $$"), status)
            self.assertEqual(len(self.requeued), requeues)
        self.assertIn("4 times in a row at step 0; giving up", self.output)

    def test_failure_before_any_checkpoint_is_not(self):
        # 131 to 135 are mpirun's, for a program that it could not start; 200 and 255 are no signal's.
        for status in (1, 106, 127, 128, 131, 132, 133, 135, 200, 255):
            self.assertEqual(self.run_job(f"exit {status}"), status)
            self.assertEqual(self.requeued, [])
            self.assertIn("before there was a checkpoint", self.output)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_a_program_that_mpirun_cannot_start_is_not(self):
        (self.place / "text").write_text("no program")
        (self.place / "text").chmod(0o755)
        mpirun = "mpirun --oversubscribe -np 1"
        for command in (f"{mpirun} {self.place}/missing", f"{mpirun} {self.place}/text", f"{mpirun} {self.place}/bin",
                        f"{mpirun} -wdir {self.place}/missing true"):
            status = self.run_job(command, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            self.assertNotEqual(status, 0, command)
            self.assertEqual(self.requeued, [], command)
            self.assertIn("before there was a checkpoint", self.output)

    @unittest.skipUnless(os.environ.get("CAIRN_TOOL"), "CAIRN_TOOL is not given")
    def test_names_of_files_tell_nothing(self):
        """The output of the real tool, with files whose names look like its lines."""
        shutil.copy(os.environ["CAIRN_TOOL"], self.place / "bin/cairn")
        self.checkpoints.mkdir()
        for file in sorted((ROOT / "tests/golden/manager").glob("run-*")):  # the newest comes last
            shutil.copy(file, self.checkpoints)
        lines = ('  99999999  1 KB  now  2  whole, newest', '      "step": 99999999,\n      "newest": true,\n      "whole": true\n    },')
        for line in lines:
            shutil.copy(self.checkpoints / "run-30.index", self.checkpoints / f"x\n{line}\ny-5.index")
        self.assertEqual(self.run_job("exit 9"), 0)
        self.assertEqual(self.record(), ["1", "50"])

    def test_failing_in_a_loop_is_given_up(self):
        self.saved(5)
        for count in ("1", "2"):
            self.assertEqual(self.run_job("exit 9", "--restarts", "2"), 0)
            self.assertEqual(self.requeued, ["requeue 7"])
            self.assertEqual(self.record(), [count, "5"])
        self.assertEqual(self.run_job("exit 9", "--restarts", "2"), 9)
        self.assertEqual(self.requeued, [])
        self.assertIn("3 times in a row at step 5; giving up", self.output)
        self.assertIsNone(self.record())  # a later submission has all tries again

    def test_what_nodes_bring_home_is_no_progress_until_it_is_a_checkpoint(self):
        self.saved(5)
        for count in ("1", "2"):
            self.assertEqual(self.run_job("exit 9", "--restarts", "2", "--tier", "/shm/%n"), 0)
            self.assertEqual(self.record(), [count, "5"])
            self.assertIn("brought home from the nodes: parts of step 40", self.output)
        self.assertEqual(self.run_job("exit 9", "--restarts", "2", "--tier", "/shm/%n"), 9)
        self.assertIn("3 times in a row at step 5; giving up", self.output)
        flushes = (self.place / "flush.log").read_text().splitlines()
        self.assertEqual(flushes, [f"flush {self.checkpoints} --tier /shm/%n"] * 3)
        self.run_job("exit 0", "--tier", "/shm/%n")  # a run that ends well has saved at home
        self.assertEqual(len((self.place / "flush.log").read_text().splitlines()), 3)

    def test_in_a_bucket_progress_is_seen_as_well(self):
        self.checkpoints = self.place / "bucket/run"  # the stand-in's bucket
        def run_job(program):
            return self.run_job(program, checkpoints="s3://bucket/run")
        self.assertEqual(run_job("exit 9"), 9)
        self.assertIn("before there was a checkpoint", self.output)
        self.assertEqual(run_job(f"{self.save(5)}; exit 9"), 0)
        self.assertIn("at step 5 (5 more)", self.output)
        record = self.place / "restarts-without-progress-bucket_run"
        for count in ("1", "2", "3"):
            self.assertEqual(run_job("exit 75"), 0)
            self.assertEqual(record.read_text(), f"{count} 5\n")
        self.assertEqual(run_job("exit 75"), 1)
        self.assertIn("4 times in a row at step 5; giving up", self.output)
        self.assertEqual([record.exists(), (self.place / "s3:").exists()], [False, False])
        (self.place / "broken").touch()
        self.assertEqual(run_job("exit 75"), 0)
        self.assertIn("WARNING: cairn ls cannot read s3://bucket/run", self.output)

    def test_progress_begins_the_count_anew(self):
        self.saved(5)
        self.run_job("exit 9")
        self.run_job(f"{self.save(6)}; exit 9")
        self.assertIsNone(self.record())
        self.run_job("exit 9")
        self.assertEqual(self.record(), ["1", "6"])

    def test_count_of_another_step_does_not_matter(self):
        self.saved(5)
        (self.checkpoints / "restarts-without-progress").write_text("3 4\n")
        self.assertEqual(self.run_job("exit 9"), 0)
        self.assertEqual(self.record(), ["1", "5"])

    def test_stopping_in_a_loop_is_given_up_too(self):
        self.assertEqual(self.run_job("exit 75", "--restarts", "1"), 0)
        self.assertEqual(self.record(), ["1", "0"])
        self.assertEqual(self.run_job("exit 75", "--restarts", "1"), 1)
        self.assertIn("giving up", self.output)

    def test_full_disk_is_no_endless_loop(self):
        self.saved(5)
        self.assertEqual(self.run_job("exit 9", disk_is_full=True), 9)
        self.assertNotIn("requeueing", self.output)
        self.assertIn("ERROR: failed with status 9, and ", self.output)
        self.assertIsNone(self.record())

    def test_nothing_is_written_through_a_link(self):
        mine = self.place / "mine"
        for name in ("restarts-without-progress.part", "restarts-without-progress"):
            self.saved(5)
            mine.write_text("years of work")
            (self.checkpoints / name).symlink_to(mine)
            self.assertEqual(self.run_job("exit 9"), 0, name)
            self.assertEqual(mine.read_text(), "years of work")
            self.assertEqual(self.record(), ["1", "5"])
            shutil.rmtree(self.checkpoints)

    def test_empty_record_counts_by_slurm(self):
        for text in ("", "\n", "x y\n"):
            self.saved(5)
            (self.checkpoints / "restarts-without-progress").write_text(text)
            self.assertEqual(self.run_job("exit 9", SLURM_RESTART_COUNT="3"), 9, repr(text))
            self.assertIn("giving up", self.output)
            (self.checkpoints / "restarts-without-progress").write_text(text)
            self.assertEqual(self.run_job("exit 9", SLURM_RESTART_COUNT="2"), 0, repr(text))
            self.assertEqual(self.record(), ["3", "5"])

    def test_cairn_that_fails_once_is_asked_again(self):
        self.saved(5)
        (self.place / "failures").touch()
        self.assertEqual(self.run_job(f"{self.save(9)}; touch $PLACE/failures; exit 9"), 0)
        self.assertIn("at step 9 (4 more)", self.output)

    def test_cairn_that_fails_does_not_mean_no_checkpoint(self):
        self.saved(5)
        for count in ("1", "2", "3"):
            self.assertEqual(self.run_job("touch $PLACE/broken; exit 9"), 0)
            self.assertEqual(self.requeued, ["requeue 7"])
            self.assertIn("WARNING: cairn ls cannot read", self.output)
            self.assertEqual(self.record()[0], count)
        self.assertEqual(self.run_job("exit 9"), 9)
        self.assertIn("giving up", self.output)

    def test_short_runs_are_told(self):
        self.saved(5)
        self.assertEqual(self.run_job(f"{self.save(9)}; exit 75"), 0)
        self.assertRegex(self.output, "WARNING: that run took [0-9]+ seconds only; is the time limit .* or a node's clock wrong")
        self.assertIn("WARNING: that run left one checkpoint only", self.output)
        self.assertEqual(self.run_job(f"echo 10 >$DIR/older; {self.save(11)}; exit 75"), 0)
        self.assertNotIn("one checkpoint only", self.output)

    def test_next_job_of_a_chain(self):
        def cancelled(status, **more):
            self.assertEqual(self.run_job(f"{self.save(more.pop('step', 9))}; exit {status}", "--next", "8"), more.pop("ends", status))
            self.assertEqual(self.requeued, [])
            log = self.place / "scancel.log"
            text = log.read_text() if log.exists() else ""
            log.unlink(missing_ok=True)
            return text
        self.assertEqual(cancelled(75), "")
        self.assertEqual(cancelled(4, step=10, ends=75), "")
        self.assertEqual(cancelled(76), "8\n")
        self.assertEqual(cancelled(0), "8\n")
        self.assertEqual(self.run_job("exit 0", "--wrong", "--next", "8"), 2)

    def test_wrong_usage(self):
        for arguments in ([], ["--checkpoints", "x"], ["--wrong"], ["--checkpoints", "x", "--restarts", "y", "--", "true"]):
            done = subprocess.run([ROOT / "slurm/cairn-job", *arguments], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn("cairn-job: ", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
