"""Jobs in Python that are started, killed and started again.

stories.py ranks DIRECTORY TABLES FORMATS LEFT LAUNCHER...  saved on some ranks, restored on others
stories.py heat DIRECTORY heat.py LAUNCHER...  killed while it saves, continued on other ranks
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def job(launcher, ranks, *arguments):
    return [*launcher, str(ranks), sys.executable, "-B", *arguments]


def run(command):
    ran = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {ran.returncode}:\n{ran.stdout}")
    return ran.stdout


def ranks_story(directory, tables, formats, left, *launcher):
    shutil.rmtree(directory, ignore_errors=True)
    program = os.path.join(HERE, "ranks.py")
    # With mpi4py's own runner an exception on one rank ends the job, in which others would wait for
    # ever.
    left = [left] if os.path.isdir(left) else []  # what a program in another language has left
    told = run(job(launcher, 4, "-m", "mpi4py", program, directory, tables, formats, *left))
    found = re.search(r"works on many ranks in (\d+) ways$", told, re.M)
    assert found and int(found[1]) >= 6, told
    assert "error: the asynchronous save of step 5 is not committed: the manager ended before that" in told, told
    import cairn
    state = {"step": 0, "name": ""}
    with cairn.CheckpointManager(directory + "/left") as manager:
        assert manager.restore_latest(state)["step"] == 5
    assert state == {"step": 5, "name": "version 5"}, state
    wrong = os.path.join(HERE, "wrong_ranks.py")
    assert run(job(launcher, 1, wrong, directory + "/late")) == "refused\n"


def processes_below(pid):
    """All processes below: some launchers have helpers between them and the ranks."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(word) for word in file.read().split()]
    return [below for child in children for below in (*processes_below(child), child)]


def kill_all(started):
    """Kills the ranks, which have process groups of their own, and their launcher; returns when
    all are gone."""
    ends = []
    for pid in [*processes_below(started.pid), started.pid]:
        try:
            end = os.pidfd_open(pid)
            signal.pidfd_send_signal(end, signal.SIGKILL)
        except ProcessLookupError:
            continue  # gone already
        ends.append(end)
    for end in ends:
        select.select([end], [], [])
        os.close(end)
    started.wait()


def last_line(text):
    return text.strip().splitlines()[-1]


def heat_story(directory, program, *launcher):
    shutil.rmtree(directory, ignore_errors=True)
    whole = last_line(run(job(launcher, 1, program, directory + "/whole", "200")))
    assert re.fullmatch("step 200: [0-9a-f]{64}", whole), whole
    killed = directory + "/killed"
    for ranks, kill_at in [(3, 40), (2, 100)]:
        started = subprocess.Popen(job(launcher, ranks, program, killed, "1000000"),
                                   stdout=subprocess.DEVNULL)
        import cairn
        while not os.path.isdir(killed) or max(cairn.steps(killed), default=0) < kill_at:
            assert started.poll() is None, f"it ended with {started.returncode}"
        kill_all(started)
        newest = max(cairn.steps(killed))
        assert newest >= kill_at
    end = newest + 37
    told = run(job(launcher, 3, program, killed, str(end)))
    assert re.search("^going on from step ", told, re.M), told  # after what the manager said on stderr
    alone = run(job(launcher, 1, program, directory + "/alone", str(end)))
    assert last_line(told) == last_line(alone), (told, alone)
    look = os.path.join(os.path.dirname(program), "look.py")
    told = run([sys.executable, "-B", look, killed])
    assert f"bundle, step {end}, 2 tensors" in told and "heat: float64 (96, 64) K" in told, told
    assert "rows 10 to 20: from 0." in told, told
    axes_story(os.path.dirname(program), killed, end)


def axes_story(examples, directory, step):
    """Checks that xarray opens it lazily and with the names that the program gave."""
    try:
        import xarray  # noqa: F401
    except ImportError:
        print("xarray is not there")
        return
    sys.path.insert(0, examples)
    import axes
    import cairn
    import numpy as np
    data = axes.open_axes(directory)
    assert data.heat.dims == ("y", "x") and data.heat.shape == (96, 64), data
    assert (data.heat.attrs["units"], data.attrs["step"], int(data.step)) == ("K", step, step), data
    right = cairn.open(directory)["heat"][...]
    asked = []
    read = cairn.Tensor.__getitem__
    cairn.Tensor.__getitem__ = lambda self, index: asked.append(index) or read(self, index)
    assert data.heat.isel(x=3, y=slice(10, 20)).values.tobytes() == right[10:20, 3].tobytes()
    assert asked == [(slice(10, 20, 1), 3)], asked
    assert data.heat.sel(x=[5, 1, 7]).values.tobytes() == np.ascontiguousarray(right[:, [5, 1, 7]]).tobytes()
    cairn.Tensor.__getitem__ = read
    told = run([sys.executable, "-B", os.path.join(examples, "axes.py"), directory])
    assert "heat: middle line from 0." in told, told


{"ranks": ranks_story, "heat": heat_story}[sys.argv[1]](*sys.argv[2:])
print("right")
