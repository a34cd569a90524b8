#!/usr/bin/env python3
"""Records of what ran where, and the page that is made of them.

usage: record.py write FILE [--from RECORD] [--build BUILD] [--results JUNIT] [KEY=VALUE...]
       record.py page [--write [RECORD...]]

write  makes a record: what RECORD says, the system of this machine, what a configured BUILD of Cairn found
       (its summary.txt), the counts of CTest's results, then each KEY=VALUE, and the commit and the date of now
page   exits with 1 if lab/support.md is not what lab/lanes/records say; --write takes these records over, and
       makes it anew
"""
import datetime
import json
import platform
import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEYS = ("lane", "command", "ran", "system", "compiler", "mpi", "hdf5", "kokkos", "device",
        "passed", "failed", "skipped", "compiled", "result", "date", "commit")
NUMBERS = ("passed", "failed", "skipped", "compiled")
NEEDED = ("lane", "command", "ran", "system", "compiler", "date")
INTRODUCTION = """# Where Cairn ran

`scripts/test` and each of the [lanes](lanes.md) leave a record of what they found and ran, and say where.
`lab/lanes/record.py page --write RECORD` takes it into `lab/lanes/records` and makes this page of all that are there.
An empty cell: it is no part of that run. A row without a commit repeats the [journal](journal.md).

"""
COLUMNS = (("Command", "command"), ("System", "system"), ("Compiler", "compiler"), ("MPI", "mpi"), ("HDF5", "hdf5"),
           ("Kokkos", "kokkos"), ("Device", "device"), ("What", "ran"))


def system():
    """The operating system's name, and the processor's where it is not the usual one."""
    text = Path("/etc/os-release").read_text(encoding="utf-8") if Path("/etc/os-release").is_file() else ""
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    name = name[1] if name else platform.system()
    return name if platform.machine() == "x86_64" else f"{name}, {platform.machine()}"


def found_by(summary):
    """What the summary of a configuration says of compiler, MPI, HDF5 and Kokkos."""
    rows = dict(re.findall(r"^  (\S+)\s+(.*)$", summary, re.MULTILINE))
    found = {"compiler": rows["Compiler"].rsplit(", C++", 1)[0].replace("GNU", "GCC")}
    for key, row, pattern in (("mpi", "MPI", r"on, MPI [\d.]+(?:, (.+))?"), ("hdf5", "HDF5", r"on, ([\d.]+)"),
                              ("kokkos", "Kokkos", r"on, ([\d.]+ \([^)]*\))")):
        match = re.match(pattern, rows[row])
        if match:
            found[key] = match[1] or "of an unknown name"
    return found


def counted(results):
    """Passed, failed and skipped tests of CTest's JUnit file."""
    suite = xml.etree.ElementTree.parse(results).getroot()
    number = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "skipped", "disabled")}
    skipped = number["skipped"] + number["disabled"]
    return {"passed": number["tests"] - number["failures"] - skipped, "failed": number["failures"], "skipped": skipped}


def commit():
    """The commit of this tree, with "+" if files differ from it; None where git does not tell."""
    run = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
                         text=True, capture_output=True)
    return run.stdout.strip() if run.returncode == 0 else None


def faults(record):
    unknown = sorted(set(record) - set(KEYS))
    yield from (f"unknown key {key}" for key in unknown)
    yield from (f"no {key}" for key in NEEDED if not record.get(key))
    yield from (f"{key} is no number" for key in NUMBERS if key in record and not isinstance(record[key], int))
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", record.get("date", "")):
        yield "date is no date"
    if not {"passed", "compiled", "result"} & set(record):
        yield "no passed, compiled or result"


def text_of(record):
    return json.dumps({key: record[key] for key in KEYS if record.get(key) not in (None, "")}, indent=1) + "\n"


def write(arguments):
    output, *rest = arguments
    record, wanted = {"system": system()}, iter(rest)
    for word in wanted:
        if word == "--from":
            record |= json.loads(Path(next(wanted)).read_text(encoding="utf-8"))
        elif word == "--build":
            record |= found_by((Path(next(wanted)) / "summary.txt").read_text(encoding="utf-8"))
        elif word == "--results":
            record |= counted(next(wanted))
        else:
            key, _, value = word.partition("=")
            record[key] = int(value) if key in NUMBERS else value
    record |= {"date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "commit": commit()}
    wrong = list(faults(record))
    if wrong:
        print(f"no record: {', '.join(wrong)}", file=sys.stderr)
        return 1
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output).write_text(text_of(record), encoding="utf-8")
    print(f"record: {output}")
    return 0


def result_of(record):
    """The counts; of a run that had none, what was said of it."""
    if "passed" not in record and "compiled" not in record:
        return record["result"]
    counts = [f"{record[key]} {word}" for key, word in (("passed", "pass"), ("compiled", "files compile"),
                                                        ("skipped", "skipped")) if record.get(key)]
    return ", ".join([*counts, *([f"**{record['failed']} fail**"] if record.get("failed") else [])])


def page(records):
    lines = ["| " + " | ".join([name for name, _ in COLUMNS] + ["Result", "Of"]) + " |",
             "|" + "---|" * (len(COLUMNS) + 2)]
    for record in sorted(records, key=lambda one: (one["lane"] != "test", one["lane"])):
        cells = [record.get(key, "") for _, key in COLUMNS]
        cells[0] = f"`{cells[0]}`"
        of = record["date"] + (f", `{record['commit'][:8]}`" if record.get("commit") else "")
        lines.append("| " + " | ".join([*cells, result_of(record), of]) + " |")
    return INTRODUCTION + "\n".join(lines) + "\n"


def taken(root):
    for path in sorted((root / "lab/lanes/records").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        wrong = [*faults(record), *([] if path.stem == record.get("lane") else ["its name is not that of its lane"])]
        if wrong:
            raise ValueError(f"{path}: {', '.join(wrong)}")
        yield record


def check_or_write_page(arguments, root=ROOT):
    place = root / "lab/support.md"
    if arguments and arguments[0] == "--write":
        for path in arguments[1:]:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
            (root / "lab/lanes/records" / f"{record['lane']}.json").write_text(text_of(record), encoding="utf-8")
        place.write_text(page(taken(root)), encoding="utf-8")
        return 0
    if not place.is_file() or place.read_text(encoding="utf-8") != page(taken(root)):
        print("lab/support.md is not what lab/lanes/records say: lab/lanes/record.py page --write")
        return 1
    return 0


def main(arguments):
    if len(arguments) > 1 and arguments[0] == "write":
        return write(arguments[1:])
    if arguments and arguments[0] == "page" and arguments[1:2] in ([], ["--write"]):
        return check_or_write_page(arguments[1:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
