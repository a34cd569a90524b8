"""Jobs of real processes for the campaigns mpi, left, disks and others: campaign_real under mpirun, and what must
be true after one, whatever befell it."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Ways to write, and what else a job may do; HOME is the place of the job's directory.
LINES = {
    "bundle": [],
    "bundle_async": ["--async"],
    "bundle_mpi_io": ["--mpi-io"],
    "hdf5": ["--hdf5"],
    "hdf5_collective": ["--collective"],
    "frozen": ["--frozen"],
    "redistribute": ["--redistribute"],
    "nodes": ["--nodes", "HOME/node-%n"],
    "nodes_saved": ["--nodes", "HOME/node-%n", "--home-every", "100"],
    "nodes_flushed": ["--nodes", "HOME/node-%n", "--home-every", "1", "--flush"],
    "nodes_lost": ["--nodes", "HOME/node-%n", "--home-every", "100"],
    "turns": ["--turns"],
    "turns_async": ["--turns", "--async"],
}
# What ranks say to each other and make of MPI there, and nothing else is new.
OF_MPI = ("frozen", "redistribute", "nodes_saved", "nodes_flushed", "nodes_lost", "turns", "turns_async")
LEFT_OVER = re.compile(r"_temp_|\.part_|\.aside_|\.tmp")
CRASHED = re.compile(r"Segmentation|terminate called|Assertion|signal 6|signal 11")


def add_arguments(parser, name):
    lines = [line for line in LINES if name in ("mpi", "left") or line not in OF_MPI]
    parser.add_argument("--lines", default=",".join(lines), help=f"of {', '.join(LINES)}")
    parser.add_argument("--limit", type=float, default=120, help="seconds until a job hangs")
    parser.add_argument("--library", type=Path, help="libcampaign_faulty_mpi.so, with --bin")
    add_places(parser, name)


def add_places(parser, name):
    parser.add_argument("--bin", type=Path, help="programs, instead of a build")
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/campaign")
    parser.add_argument("--place", type=Path,
                        help=f"for directories and logs; emptied (default: DIR/{name})")


def settle(arguments, name, targets=("campaign_real", "campaign_faulty_mpi", "cairn_cli"), options=()):
    """Builds what is not there; where the programs and the library are."""
    if not arguments.bin:
        place = arguments.build_dir
        for command in (
                ["cmake", "-S", str(ROOT), "-B", str(place), "-G", "Ninja",
                 "-DCMAKE_BUILD_TYPE=Release", "-DCAIRN_TESTS=ON", "-DCAIRN_EXAMPLES=OFF",
                 "-DCAIRN_KOKKOS=OFF", *options],
                ["cmake", "--build", str(place), "--target", *targets]):
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True)
            if result.returncode != 0:
                sys.exit(f"{' '.join(command)} failed:\n{result.stdout[-4000:]}")
        arguments.bin = place / "bin"
        arguments.library = place / "tests/campaign/libcampaign_faulty_mpi.so"
    arguments.place = (arguments.place or arguments.build_dir / name).absolute()
    shutil.rmtree(arguments.place, ignore_errors=True)
    arguments.place.mkdir(parents=True)


def preloading(library):
    """The ranks' command has it then, and not the launcher: each takes variables in another way."""
    others = os.environ.get("LD_PRELOAD")
    return ["env", f"LD_PRELOAD={library}{':' + others if others else ''}"]


class Job:
    """campaign_real in HOME/run."""

    def __init__(self, arguments, home, name, line, ranks, saves, *, options=(), environment=(),
                 launcher=(), preload=None):
        self.log = arguments.place / f"{name}.log"
        self.limit = arguments.limit
        words = [str(arguments.bin / "campaign_real"), str(home / "run"), str(saves)]
        words += [word.replace("HOME", str(home)) for word in LINES[line]] + list(options)
        command = [*launcher, "mpirun", "-np", str(ranks)]
        if preload:
            command += preloading(preload)
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                command + words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
                         OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1",
                         OMPI_MCA_rmaps_base_oversubscribe="1",
                         OMPI_MCA_hwloc_base_binding_policy="none",
                         OMPI_MCA_btl_vader_single_copy_mechanism="none", **dict(environment)))

    def text(self):
        return self.log.read_text(errors="replace")

    def end(self):
        """Its status, 'hangs' where it had to be ended; and what it had said by then."""
        try:
            return self.process.wait(timeout=self.limit), self.text()
        except subprocess.TimeoutExpired:
            text = self.text()  # mpirun lets ranks go on that were stopped
            self.process.terminate()
            self.process.wait()
            return "hangs", text


def steps(text, word):
    """Numbers of the lines 'WORD STEP'."""
    return [int(step) for step in re.findall(rf"^{word} (\d+)", text, re.MULTILINE)]


def wrong_after(arguments, home, line, least):
    """A job on two ranks restores step `least` or a later one, and saves; then all is well. Where a
    node was lost, on three: the next one may not be lost, too."""
    ranks = 3 if line == "nodes_lost" else 2
    status, text = Job(arguments, home, "restart", line, ranks, 1).end()
    wrong = re.findall(r"^(?:wrong|failed) .*", text, re.MULTILINE)
    restored = steps(text, "restored")
    if not restored or restored[0] < least:
        wrong.append(f"step {least} is lost: {restored} was restored")
    if status != 0 or "\ndone" not in text:
        wrong.append(f"the restart ended with {status}")
    verify = subprocess.run([str(arguments.bin / "cairn"), "verify", str(home / "run")],
                            capture_output=True, text=True)
    if verify.returncode != 0:
        wrong.append(f"cairn verify: {verify.stdout.strip()} {verify.stderr.strip()}")
    left = [entry.name for entry in (home / "run").glob("*") if LEFT_OVER.search(entry.name)]
    if left:
        wrong.append(f"left over: {left}")
    return wrong


class Findings:
    def __init__(self, arguments, campaign):
        self.arguments, self.campaign, self.count = arguments, campaign, 0

    def add(self, case, wrong, home):
        """Prints it, and keeps the directory and the logs."""
        self.count += 1
        kept = self.arguments.place / f"finding-{self.count}"
        shutil.copytree(home, kept, symlinks=True)
        for log in self.arguments.place.glob("*.log"):
            shutil.copy(log, kept)
        print(f"{case}: " + "; ".join(wrong), f"  kept: {kept}",
              f"  again: scripts/campaign {self.campaign} --case {case}", sep="\n", flush=True)
