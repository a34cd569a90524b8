"""Cairn's goals, and how far the rows of a run reach them."""
import re

STEADY, FIRST, BLOCKED = "save, steady", "save, new files", "save_async, blocked"
COMMITTED = "POSIX by hand, copied, checksummed and committed"
LARGE = 256  # MiB of a state, to which most goals refer
SMALL = 16  # MiB of small states, where the commit dominates
SAME, FEWER = "restore, N to N", "restore, N+1 to N"
CACHED, INTO_SUCH = "restore, N to N, page cache", "POSIX by hand, memory like an application's"
ONE = "Cairn, one tensor of as many bytes"
BARE = {"Cairn, Writer::mpi_io, one file": "MPI_File_write_at_all by hand, one file",
        "Cairn, HDF5, laid out": "H5Dwrite by hand, collective",
        "Cairn, HDF5, Writer::hdf5_collective": "H5Dwrite by hand, collective"}
CODECS = "zstd", "blosc", "deflate"
PROPORTIONAL = 1.05  # times the share of bytes, as a share of the time, is in proportion


def is_peer(row):
    return not row["what"].startswith(("Cairn", "POSIX"))


def of_one_run(rows):
    """Yields (text, value, goal, whether more is better) for the rows of one state, size and
    number of ranks."""
    by = {(row["measure"], row["what"]): row for row in rows}
    speed = {key: row["median"] for key, row in by.items()}
    cairn = {measure: row for (measure, what), row in by.items() if what == "Cairn"}

    def raw(measure, goal):
        if measure in cairn and cairn[measure]["ratio_to_raw"]:
            yield f"{measure}: x raw", cairn[measure]["ratio_to_raw"], goal, True

    if rows[0]["state"] == "small":
        for measure in (FIRST, STEADY):
            if (measure, ONE) in speed:
                yield (f"2,000 small tensors, {measure}: x the time of one tensor",
                       speed[measure, ONE] / speed[measure, "Cairn"], 2 if measure == FIRST else 1.3, False)
        return
    if rows[0]["mib"] <= SMALL:
        yield from raw(STEADY, 0.65)
        if STEADY in cairn and (STEADY, COMMITTED) in speed:
            yield (f"{STEADY}: x the same commit by hand", cairn[STEADY]["median"] / speed[STEADY, COMMITTED], 0.95, True)
        return
    yield from raw(STEADY, 0.9)
    yield from raw(FIRST, 0.95)
    if STEADY in cairn:
        for measure, goal in ((FIRST, 1.5), (STEADY, 1.0)):
            best = max((row for row in rows if row["measure"] == measure and is_peer(row)),
                       key=lambda row: row["median"], default=None)
            if best:
                yield (f"save, steady: x the best peer, {'new files' if measure == FIRST else 'overwriting'} "
                       f"({best['what']})", cairn[STEADY]["median"] / best["median"], goal, True)
    if BLOCKED in cairn:
        yield "save_async, blocked: x one memcpy", 1 / cairn[BLOCKED]["ratio_to_raw"], 1.15, False
        for part, goal in (("it", 0.05), ("half", 0.6)):
            row = by.get((BLOCKED, f"Cairn, released when {part} is written"))
            if row:
                yield f"save_async, released when {part} is written: x one memcpy", 1 / row["ratio_to_raw"], goal, False
    plain, checked = (speed.get(("checksum", f"pieces of a save, {how} checksums")) for how in ("without", "with"))
    if plain and checked:
        yield "checksum: what it adds to the pieces of a steady save", plain / checked - 1, 0.05, False
    yield from raw(SAME, 0.95)
    yield from raw(FEWER, 0.95)
    if CACHED in cairn and (CACHED, INTO_SUCH) in speed:
        yield (f"{CACHED}: x a buffered read into memory like an application's",
               cairn[CACHED]["median"] / speed[CACHED, INTO_SUCH], 0.8, True)
    if SAME in cairn and FEWER in cairn:
        yield "restore, N+1 to N: x the time of N to N", cairn[SAME]["median"] / cairn[FEWER]["median"], 1.3, False
    for ours, bare in BARE.items():
        if (FIRST, ours) in speed and (FIRST, bare) in speed:
            yield f"{ours}: x {bare}", speed[FIRST, ours] / speed[FIRST, bare], 0.95, True


def of_unchanged(rows):
    """The same for rows of unchanged_bench; also the next ones, of other programs."""
    by = {(row["measure"], row["what"]): row for row in rows}
    for tenths, disk in (9, "1 GB/s"), (0, "1 GB/s"), (0, "the disk as it is"):
        what = f"{tenths} tenths unchanged, {disk}"
        full, skips = by["save in full", what], by["save of what differs", what]
        if tenths:
            yield f"{what}: x the bytes of a full save", skips["bytes"] / full["bytes"], 0.11, False
            yield f"{what}: x the time of a full save", skips["ratio"], 0.2, False
        else:
            yield f"{what}: x the time of a full save, all turns", skips["together"], 1.02, False


def of_codecs(rows):
    by = {(row["measure"], row["what"]): row for row in rows}

    def share(codec, what):
        return by[codec, what]["bytes"] / by["none", what]["bytes"]

    for codec in CODECS:
        if (codec, "weights") not in by:
            continue
        yield f"bfloat16 weights, {codec}: times smaller", 1 / share(codec, "weights"), 1.3, True
        by_hand = by.get(("zstd -1 by hand", "field"))
        yield (f"Gray-Scott, {codec}: stored, x raw (goal: as zstd -1)", share(codec, "field"),
               by_hand and round(by_hand["ratio"], 4), False)
        yield f"noise, {codec}: stored, x raw", share(codec, "noise"), 1.001, False
        yield f"noise, {codec}: x the time without", by[codec, "noise"]["ratio"], 1.03, False
        for what in "weights", "field", "noise":
            paced = f"{what}, paced"
            yield (f"{what}, {codec}, 200 MB/s a rank: time, x stored bytes",
                   by[codec, paced]["ratio"] / share(codec, paced), PROPORTIONAL, False)


def of_space(text):
    """Of what tests print: None where they could not run."""
    for kind in "btrfs", "xfs":
        found = re.search(rf"on {kind}:(?:(?!on \w+:).)*ten checkpoints take ([0-9.]+) of one", text, re.DOTALL)
        yield f"ten checkpoints, a tenth changes, {kind}: x one", found and float(found[1]), 2.09, False
    found = re.search(r"eight saves under LoRA take ([0-9.]+) of", text)
    yield "eight saves under LoRA: x the model and eight adapters", found and float(found[1]), 1.01, False


def line(text, value, goal, more):
    if value is None or goal is None:
        return f"{'not measured':20} {text}"
    good = value >= goal if more else value <= goal
    return f"{'reached' if good else 'MISSED ':8} {value:7.3f} (goal {'>=' if more else '<='} {goal}) {text}"


def show(rows):
    runs = {}
    for row in rows:
        if row["measure"] == "application":
            if row["what"] != "no save":
                print(line(f"application, np = {row['np']}: one {row['what']} every 10 s", row["overhead"], 0.03, False))
        else:
            runs.setdefault((row["np"], row["state"], row["mib"]), []).append(row)
    for (np, state, size), some in runs.items():
        if state != "small" and SMALL < size < LARGE:
            print(f"\n{state}, {size} MiB, np = {np}: no goals, which are for up to {SMALL} MiB and from {LARGE} MiB")
            continue
        print(f"\n{state}, {size} MiB, np = {np}: medians beside their goals")
        for figure in of_one_run(some):
            print(" ", line(*figure))
