"""Simulated jobs of many ranks (lab/bench/scale_simulation), each in a process of its own. If a
job exceeds its memory or time, its measurements until then are kept, and it is named."""
import argparse
import json
import resource
import subprocess
import tempfile
from pathlib import Path

CALLS = ["first save", "steady save", "save_async", "wait", "open", "restore", "restore on half"]
# A state after whose name its storage comes; the automatic one changes at 8,000 slices of a tensor.
STATES = ["grid, sliced", "grid, dense", "particles", "train", "amr"]
SAVES, ASYNC, ALL = [], ["--async"], ["--async", "--restores"]
SMALL = [(64, STATES, ALL), (256, ["grid, sliced", "particles", "amr"], ALL), (256, ["train"], ASYNC),
         (1024, ["grid, sliced", "particles"], ALL), (1024, ["grid, dense"], SAVES), (1024, ["train"], ASYNC)]
LARGE = [(1024, ["amr"], ASYNC), (4096, ["grid, sliced", "particles"], ASYNC), (4096, ["grid, dense", "train", "amr"], SAVES),
         (16384, ["grid, sliced", "grid, dense", "particles", "train"], SAVES)]
STACK = 260 << 10  # of a rank: address space, of which little is touched


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench --scale", description="Critical paths of simulated jobs. With "
                                     "--states or --ranks the options are those of lab/bench/scale_simulation.cpp.")
    parser.add_argument("--program", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--large", action="store_true", help="up to 16,384 ranks (default: 1,024, in less than two minutes)")
    parser.add_argument("--json", type=Path, help="rows to a file, for scripts/bench-report --scale")
    parser.add_argument("--memory", type=float, default=10, metavar="GIB", help="that a run may take (default: 10)")
    parser.add_argument("--minutes", type=float, default=20, help="that a run may last (default: 20)")
    parser.add_argument("--only", metavar="STATE", action="append", help="of the runs those of this state")
    return parser.parse_args()


def simulate(options, state, ranks, flags):
    """The rows of one job, and why there are no more."""
    kind, _, storage = state.partition(", ")
    command = [options.program, "--states", kind, "--ranks", str(ranks), "--storage", storage or "automatic", "--stages", *flags]
    limit = int(options.memory * 2**30) + ranks * STACK
    with tempfile.TemporaryDirectory() as place:
        rows = Path(place) / "rows.json"
        try:
            done = subprocess.run([*command, "--json", rows], timeout=60 * options.minutes,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            why = f"not within {options.memory:g} GiB" if done.returncode else ""
        except subprocess.TimeoutExpired:
            why = f"not within {options.minutes:g} minutes"
        found = json.loads(rows.read_text()) if rows.exists() else []
    return [row | {"state": state} for row in found], why


def main():
    options = parse()
    rows = []
    for ranks, states, flags in SMALL + LARGE * options.large:
        for state in states:
            if options.only and state not in options.only:
                continue
            found, why = simulate(options, state, ranks, flags)
            rows += found
            wanted = CALLS if flags == ALL else CALLS[:4] if flags == ASYNC else CALLS[:2]
            missing = [call for call in wanted if call not in {row["what"] for row in found}]
            if missing:
                print(f"# {state} on {ranks} ranks, {why}: {', '.join(missing)}", flush=True)
                rows.append({"state": state, "ranks": ranks, "missing": missing, "why": why})
            if options.json:
                options.json.write_text(json.dumps(rows, indent=0) + "\n")


if __name__ == "__main__":
    main()
