#!/usr/bin/env python3
"""What happens to checkpointed jobs under Slurm, told by real jobs of the batch scripts in slurm/.

usage: slurm/testbed run --nodes 22 tests/slurm/stories.py BIN PLACE [STORY...]
       stories.py --nodes [STORY...]: how many nodes these take
BIN: the folder with gray_scott and cairn; PLACE: where the jobs run. A few stories go on at a time,
each on nodes of its own. Exit status: 0 all went well; 1 not, and the last line names those.
"""
import concurrent.futures
import contextlib
import os
import re
import shutil
import sys
import threading
import time
import traceback
from pathlib import Path

from story import Failure, Story, on_nodes, ranks_of, run

AT_ONCE = 5


def time_limit(story):
    """The time limit comes near: the job gets a signal, saves, is requeued, and ends well."""
    # Slurm looks at its clock twice a minute; the program must not notice first that time is short.
    job = story.submit("simulation.sbatch", "--time=1", "--signal=B:USR1@50", arguments=["--margin", "5"])
    story.until_saved(job, 10)
    story.hold()
    stopped = story.until_held(job)
    story.go_on_to(stopped + 20)
    story.expect("cairn-job: SIGUSR1" in job.text(), "no word of the signal in the log")
    story.expect("SIGUSR1 on rank" in job.text(), "the program gives another reason than the signal")
    story.expect("requeueing job" in job.text(), "no word of the requeue in the log")
    story.expect_done(job, stopped + 20)
    story.expect(f"restored step {stopped} " in job.text(), "the stop's checkpoint was not restored")
    return f"stopped at step {stopped}, requeued, done"


def time_limit_without_signal(story):
    """No signal is asked for: the program asks Slurm for its end time, stops in time, is requeued."""
    job = story.submit("simulation.sbatch", "--time=1", "--signal=B:USR1@0", "--nodes=1",
                       arguments=["--margin", "45"])
    story.until_saved(job, 10)
    story.hold()
    stopped = story.until_held(job)
    story.go_on_to(stopped + 20)
    story.expect("time limit" in job.text(), "the program gives another reason than the time limit")
    story.expect("cairn-job: SIG" not in job.text(), "a signal came")
    story.expect_done(job, stopped + 20)
    return f"stopped at step {stopped}, requeued, done"


def preemption(story):
    """A job of higher priority takes the nodes: the job gets SIGTERM, saves, is requeued by Slurm,
    and ends well when the other is gone."""
    job = story.submit("preemptible.sbatch", "--nodes=2")
    story.until_saved(job, 50)
    story.hold()
    gate = story.place / "gate"
    urgent = story.job("urgent", run(
        "sbatch", "--parsable", "--partition=urgent", f"--nodelist={','.join(story.nodes)}", "--exclusive",
        f"--output={story.place}/urgent-%j.log", "--wrap", f"until [ -e {gate} ]; do sleep 0.1; done"))
    story.until_state(urgent, "RUNNING")
    story.until_state(job, "PENDING")
    stopped = story.until("the job has stopped", job.stopped_steps)[0]
    story.expect_equal(story.newest()["step"], stopped, "newest checkpoint")
    story.go_on_to(stopped + 20)
    gate.touch()
    story.expect_done(job, stopped + 20)
    told = job.text().partition("cairn-job: SIGTERM")[2]
    story.expect("requeueing" not in told, "the script requeued a job that Slurm had requeued")
    return f"preempted at step {stopped}, came back, done"


def node_loss(story):
    """A node goes down in the middle: Slurm requeues the job, on the node that is left."""
    job = story.submit("preemptible.sbatch")
    story.until_saved(job, 50)
    story.expect_equal((job.field("%D"), story.newest()["ranks"]), ("2", 4), "nodes and ranks before")
    story.hold()
    there = [process for process, node in ranks_of(job, "SLURMD_NODENAME").values() if node == story.nodes[1]]
    story.expect_equal(len(there), 2, "ranks on the second node")
    run("scontrol", "update", f"nodename={story.nodes[1]}", "state=down", "reason=test")
    for process in there:
        with contextlib.suppress(ProcessLookupError):  # Slurm or the others may have ended it already
            os.kill(process, 9)
    story.until("the job has left the nodes", lambda: job.state() != "RUNNING")
    before = story.newest()["step"]
    story.go_on_to(before + 200)
    story.expect_done(job, before + 200)
    story.expect_equal((job.field("%N"), story.newest()["ranks"]), (story.nodes[0], 2), "node and ranks after")
    return f"4 ranks on 2 nodes until step {before} or later, 2 ranks on 1 node after, done"


def node_loss_inside(story):
    """A node goes down with all its data: the job goes on inside its allocation, from the other
    nodes."""
    tier = on_nodes(story)
    job = story.submit("preemptible.sbatch", "--nodes=2", "--no-kill", arguments=["--home-every", "0"], tier=tier)
    story.until_saved(job, 50)
    story.hold()
    ranks = ranks_of(job, "SLURMD_NODENAME").values()
    there = [process for process, node in ranks if node == story.nodes[1]]
    story.expect_equal(len(there), 2, "ranks on the second node")
    run("scontrol", "update", f"nodename={story.nodes[1]}", "state=down", "reason=test")
    for process in there:
        with contextlib.suppress(ProcessLookupError):  # Slurm or the others may have ended it already
            os.kill(process, 9)
    # The program is started again at once, and held.
    story.until("the program has ended", lambda: not set(ranks) & set(ranks_of(job, "SLURMD_NODENAME").values()))
    shutil.rmtree(str(tier.parent).replace("%n", story.nodes[1]))
    home, saved = story.newest()["step"], job.saved_step()
    story.go_on_to(saved + 200)
    story.expect_done(job, saved + 200)
    restored = re.findall(r"^restored step (\d+) from (.*)$", job.text(), re.M)
    story.expect_equal(len(restored), 1, "restores")
    story.expect(int(restored[0][0]) >= saved > home, f"step {restored[0][0]} came back, {saved} was saved")
    story.expect(f"the parts of 1 of 2 nodes ({story.nodes[1]}) are computed" in job.text(), "nothing was computed")
    story.expect("the program is started again" in job.text(), "no word of the second start")
    story.expect("requeueing" not in job.text(), "the job was requeued")
    return f"step {restored[0][0]} was computed from what the other node had (at home: step {home}), not requeued"


def batch_node_loss(story):
    """The node with the batch script goes down: that ends a job with --no-kill, and the next job
    goes on."""
    tier = on_nodes(story)
    job = story.submit("preemptible.sbatch", "--nodes=2", "--no-kill", arguments=["--home-every", "3"], tier=tier)
    story.until_saved(job, 50)
    there = [process for process, node in ranks_of(job, "SLURMD_NODENAME").values() if node == story.nodes[0]]
    run("scontrol", "update", f"nodename={story.nodes[0]}", "state=down", "reason=test")
    for process in there:
        with contextlib.suppress(ProcessLookupError):  # Slurm or the others may have ended it already
            os.kill(process, 9)
    story.until("the job is over", lambda: job.state() == "FAILED")
    home = story.newest()["step"]
    story.expect("requeueing" not in job.text(), "the job was requeued")
    run("scontrol", "update", f"nodename={story.nodes[0]}", "state=resume")
    story.go_on_to(home + 200)
    again = story.submit("preemptible.sbatch", "--nodes=2", "--no-kill", arguments=["--home-every", "3"], tier=tier)
    story.expect_done(again, home + 200)
    restored = [int(n) for n in re.findall(r"^restored step (\d+) from ", again.text(), re.M)]
    story.expect(restored and restored[0] >= home, f"steps {restored} came back, {home} was at home")
    return f"job {job.number} was ended by Slurm, {again.number} went on from step {restored[0]} (at home: {home}), done"


def emptied_nodes(story):
    """A job is requeued, and its nodes are emptied: it goes on from what they had copied home."""
    tier = on_nodes(story)
    job = story.submit("preemptible.sbatch", "--nodes=2", arguments=["--home-every", "0"], tier=tier, RELAUNCHES="0")
    story.until_saved(job, 50)
    story.hold()
    os.kill(ranks_of(job, "SLURM_PROCID")[3][0], 9)
    story.until("the job has been requeued", lambda: "requeueing job" in job.text())
    home, saved = story.newest()["step"], job.saved_step()
    story.until("the nodes are empty", lambda: not any(
        list(Path(str(tier.parent).replace("%n", node)).iterdir()) for node in story.nodes))
    story.go_on_to(saved + 200)
    story.expect_done(job, saved + 200)
    story.expect("brought home from the nodes" in job.text(), "no word of what was brought home")
    restored = [int(n) for n in re.findall(r"^restored step (\d+) from ", job.text(), re.M)]
    story.expect(restored and restored[0] >= saved > home, f"steps {restored} came back, {saved} was saved")
    return f"step {restored[0]} came back from pieces, nodes were emptied, the last checkpoint at home was {home}"


def cancelled(story):
    """scancel: the job gets SIGTERM, saves, and stays cancelled; by mpirun and by srun."""
    steps = []
    for launch in ("mpirun", "srun --mpi=pmix"):
        story.checkpoints = story.place / launch.split()[0]
        job = story.submit("simulation.sbatch", launch=launch, every=1000000)
        # No regular save comes; the owner's record exists once the manager does.
        story.until("the program runs", lambda: (story.checkpoints / ".cairn/owner").exists())
        run("scancel", job.number)
        story.until_state(job, "CANCELLED")
        steps.append(story.newest()["step"])
        story.expect_equal(len(story.checkpoints_there()), 1, "checkpoints")
        story.expect(steps[-1] > 0, "nothing was saved")
        _, told, after = job.text().partition("cairn-job: SIGTERM")
        story.expect(told, "no word of SIGTERM in the log")
        story.expect("requeueing" not in after, "a cancelled job was requeued")
    return f"saved when told, at steps {steps[0]} (mpirun) and {steps[1]} (srun); not requeued"


def killed_rank(story):
    """kill -9 of a rank under srun: the other ranks are ended, the job is requeued, and ends
    well."""
    job = story.submit("preemptible.sbatch", "--nodes=1")
    story.until_saved(job, 50)
    story.hold()
    os.kill(ranks_of(job, "SLURM_PROCID")[1][0], 9)
    story.until("the job has been requeued", lambda: "requeueing job" in job.text())
    before = story.newest()["step"]
    story.go_on_to(before + 200)
    story.expect_done(job, before + 200)
    story.expect("failed with status" in job.text(), "no word of the failure in the log")
    return f"rank 1 killed after step {before}, requeued, done"


def chain(story):
    """A chain of jobs, each of which goes on where the last one stopped; the third ends well."""
    first = job = story.submit("chain.sbatch", "--nodes=1", "--ntasks-per-node=3", "--time=1:17:00")
    stops = []
    while True:
        story.until_saved(job, (stops or [0])[-1] + 50)
        following = story.until("the next job is in the queue",
                                lambda: re.search(r"^chain: the next job is (\d+)$", job.text(), re.M))[1]
        if len(stops) == 2:
            break
        if stops:
            story.hold()
        run("scancel", "--batch", "--signal=USR1", job.number)
        stops.append(story.until("the job has stopped", job.stopped_steps)[0])
        story.until_state(job, "FAILED")  # with 75, which is not success, and so the next one starts
        if len(stops) == 2:
            story.go_on_to(stops[1] + 200)
        job = story.job("chain.sbatch", following)
    story.expect_equal((job.field("%P %l"), story.newest()["ranks"]), (f"{story.name} 1:17:00", 3),
                       "partition, time limit and ranks of the third")
    story.expect_done(job, stops[1] + 200)
    story.until_state(story.job("chain.sbatch", following), "CANCELLED")
    story.expect(f"restored step {stops[1]} " in job.text(), "the third did not go on where the second stopped")
    return f"jobs {first.number} and {story.jobs[1].number} stopped at steps {stops[0]} and {stops[1]}, {job.number} was done"


def array(story):
    """An array of two jobs, each with its own directory; one is stopped, one reaches its time
    limit."""
    for task in (0, 1):
        story.go_on_to(1000000, task)
    # SIGTERM at the time limit is a surprise, as the program has another limit. Slurm lists both
    # tasks when it is asked for the second one's number, which is the array's, too.
    number = story.submit("training.sbatch", "--time=1", "--signal=B:USR1@0", arguments=["--digest"],
                          launch="env SLURM_JOB_END_TIME=4000000000 srun --mpi=pmix --kill-on-bad-exit=1").number
    jobs = [story.job("training.sbatch", f"{number}_{task}") for task in (0, 1)]
    for job in jobs:
        story.until_saved(job, 50)
    story.hold(0)
    run("scancel", "--batch", "--signal=USR1", jobs[0].number)
    steps = [story.until_held(jobs[0])]
    before = jobs[1].saved_step()
    story.go_on_to(steps[0] + 20, 0)
    story.until_saved(jobs[1], before + 20)  # nothing disturbs it
    story.hold(1)
    steps.append(story.until_held(jobs[1]))
    story.expect("cairn-job: SIGTERM" in jobs[1].text(), "no word of SIGTERM in the log")
    story.expect(f"requeueing job {number}_1" in jobs[1].text(), "no word of the requeue in the log")
    story.go_on_to(steps[1] + 20, 1)
    for task, job in enumerate(jobs):
        story.expect_done(job, steps[task] + 20, story.checkpoints / f"run-{task}")
    return f"two runs, two directories, stopped at steps {steps[0]} and {steps[1]} (time limit), both done"


def one_directory(story):
    """Two jobs run in one directory by mistake: the second is refused, and the error says who
    owns it."""
    first = story.submit("simulation.sbatch", "--nodes=1")
    story.until_saved(first, 50)
    second = story.submit("simulation.sbatch", "--nodes=1")
    story.until_state(second, "FAILED")
    words = [line for line in second.text().splitlines() if "the checkpoint directory is in use" in line]
    story.expect(words and f"job {first.number}," in " ".join(words), "the refusal does not name the first job")
    story.expect(f"job {first.number} is saving in" in second.text(), "cairn-job does not say why it gave up")
    story.expect("requeueing" not in second.text(), "the second was requeued")
    story.hold()
    run("scancel", "--batch", "--signal=USR1", first.number)
    stopped = story.until("the first has stopped", first.stopped_steps)[0]
    story.go_on_to(stopped + 20)
    story.expect_done(first, stopped + 20)
    return f"job {second.number} was refused, job {first.number} was done"


def failing_loop(story):
    """A job that fails at the same step again and again is given up."""
    story.program.write_text(story.program.read_text().replace("exec ", "") + "exit 3\n")
    story.go_on_to(20)
    job = story.submit("simulation.sbatch", "--nodes=1", launch="srun --mpi=pmix")
    story.until_state(job, "FAILED")
    story.expect_equal(job.text().count("requeueing job"), 4, "requeues: after progress, then three more")
    story.expect("giving up" in job.text(), "no word of giving up")
    return "fails at step 20 each time, given up after 3 restarts without progress"


def night(story):
    """A night: a clock is wrong, a second job is refused, the disk fills, a node is lost; the log
    reports all of it."""
    story.expect(os.geteuid() == 0, "this needs root, for a disk that can be filled")
    tier = on_nodes(story)
    story.checkpoints.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", story.checkpoints)
    try:
        return after_midnight(story, tier)
    finally:
        story.finish()
        run("umount", "--lazy", story.checkpoints)


@contextlib.contextmanager
def growing_file(path):
    """A file of somebody else that takes all the room that there is and that becomes free."""
    ended = threading.Event()

    def grow():
        with open(path, "wb", buffering=0) as file:
            while not ended.is_set():
                try:
                    file.write(bytes(4096))
                except OSError:
                    ended.wait(0.01)
    writer = threading.Thread(target=grow)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        path.unlink()


def after_midnight(story, tier):
    # By its clock, the time limit was over before the job began.
    job = story.submit("preemptible.sbatch", "--nodes=2", "--no-kill", arguments=["--home-every", "50"], tier=tier,
                       launch="env SLURM_JOB_END_TIME=1000000000 srun --mpi=pmix --kill-on-bad-exit=1")
    story.until_saved(job, 50)
    third = next(node for node in story.nodes if node not in {n for _, n in ranks_of(job, "SLURMD_NODENAME").values()})
    other = story.submit("simulation.sbatch", "--nodes=1", f"--nodelist={third}")
    story.until_state(other, "FAILED")
    story.expect(f"job {job.number} is saving in" in other.text(), "the refusal does not say whose the directory is")

    story.hold()
    ranks = ranks_of(job, "SLURMD_NODENAME").values()
    lost = max(node for process, node in ranks)
    run("scontrol", "update", f"nodename={lost}", "state=down", "reason=test")
    for process, node in ranks:
        if node == lost:
            with contextlib.suppress(ProcessLookupError):  # Slurm or the others may have ended it already
                os.kill(process, 9)
    story.until("the program has ended", lambda: not set(ranks) & set(ranks_of(job, "SLURMD_NODENAME").values()))
    shutil.rmtree(str(tier.parent).replace("%n", lost))
    lost_at = job.saved_step()
    story.go_on_to(1000000)
    story.until_saved(job, lost_at + 50)

    # A program that goes on overwrites its own old files; one that starts from the beginning needs
    # room.
    story.hold()
    ranks = ranks_of(job, "SLURMD_NODENAME").values()
    with growing_file(story.checkpoints / "somebody-elses"):
        for process, node in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, 9)
        story.until("the program has ended", lambda: not set(ranks) & set(ranks_of(job, "SLURMD_NODENAME").values()))
        story.go_on_to(1000000)
        story.until("a save has failed", lambda: " are free (nothing was written)" in job.text())
        story.hold()
        story.until("the program has ended", lambda: not ranks_of(job, "SLURMD_NODENAME"))
        listed = run(story.binaries / "cairn", "ls", story.checkpoints)
    story.go_on_to(job.saved_step() + 200)
    story.until_state(job, "COMPLETED")

    log = [line for line in job.text().splitlines() if not line.startswith("saved step")]
    text = "\n".join(log)
    for says in ("so this clock is wrong", " are free (nothing was written)", f"({lost}) are computed from the others'"):
        story.expect(says in text, f"the log does not say: {says}")
    story.expect(" failed" in listed, f"cairn ls does not tell of the failed save: {listed}")
    return "\n".join(["done. Its log, without the saves:", *log, "--- cairn ls, while the disk was full:",
                      *listed.splitlines(), "--- the other job:", *other.text().splitlines()])


# Each story with its number of nodes; the slow ones come first.
STORIES = {
    time_limit: 2, one_directory: 1, chain: 1, time_limit_without_signal: 1, failing_loop: 1, node_loss: 2,
    node_loss_inside: 2, batch_node_loss: 2, emptied_nodes: 2,
    array: 1, cancelled: 2, preemption: 2, killed_rank: 1, night: 3,
}


def tell(function, binaries, place, nodes):
    start, story = time.monotonic(), None
    try:
        story = Story(function.__name__, binaries, place, nodes)
        text, good = function(story), True
    except Failure as failure:
        text, good = str(failure), False
        text += "\n" + (story.evidence() if story else "")
    except Exception:  # a defect of the story
        text, good = traceback.format_exc(), False
    finally:
        if story:
            story.finish()
    print(f"{'passed' if good else 'FAILED'} {function.__name__} ({time.monotonic() - start:.1f} s): {text}", flush=True)
    return good


def main(arguments):
    if arguments[:1] == ["--nodes"]:
        print(sum(STORIES[story] for story in STORIES if not arguments[1:] or story.__name__ in arguments[1:]))
        return 0
    if len(arguments) < 2:
        print(__doc__)
        return 2
    binaries, place = (Path(word).resolve() for word in arguments[:2])
    unknown = set(arguments[2:]) - {story.__name__ for story in STORIES}
    if unknown:
        print(f"no such story: {' '.join(sorted(unknown))}; there are", " ".join(s.__name__ for s in STORIES))
        return 2
    nodes = run("sinfo", "--noheader", "--Node", "--partition=main", "-o", "%N").split()
    chosen = [story for story in STORIES if not arguments[2:] or story.__name__ in arguments[2:]]
    if len(nodes) < sum(STORIES[story] for story in chosen):
        print(f"too few nodes for these stories: {len(nodes)}")
        return 2
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        tales = {}
        for story in chosen:
            own, nodes = nodes[:STORIES[story]], nodes[STORIES[story]:]
            tales[story.__name__] = pool.submit(tell, story, binaries, place, own)
    failed = [name for name, tale in tales.items() if not tale.result()]
    print(f"{len(chosen) - len(failed)} of {len(chosen)} stories went well"
          + (f"; FAILED: {' '.join(failed)}" if failed else ""))
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
