"""Is the campaign power able to find anything? Disks with two writes: with no flush between them, each may be there
without the other; with a flush, the second is never there without the first."""
import mmap
import os
import random

import power_disks
from power_disks import Failures, Recorder, Recording, loop_over, mounted, sh

BLOCK = 4096
WITHOUT = {(False, False), (False, True), (True, False), (True, True)}
WITH = WITHOUT - {(False, True)}


def write(descriptor, letter, offset):
    block = mmap.mmap(-1, BLOCK)  # aligned, as O_DIRECT wants it
    block[:] = letter * BLOCK
    if os.pwrite(descriptor, block, offset) != BLOCK:
        raise RuntimeError("a short write")


def outcomes(recording, place, look, times):
    """What is seen on disks whose power fails between the marks, or after the first if there is one."""
    chance = random.Random(1)
    failures, seen = Failures(recording, place), set()
    first = next(i for i, event in enumerate(recording.events) if event[2] == b"begin\n")
    last = next((i + 1 for i, event in enumerate(recording.events) if event[2] == b"end\n"), len(recording.events))
    for cut in sorted(chance.randint(first, last) for _ in range(times)):
        seen.add(look(failures.disk(cut, chance)))
    return seen


def kind_of(bytes_there, letter):
    """Whether it is there; None for a torn block."""
    count = bytes_there.count(letter)
    return True if count == BLOCK else False if count == 0 else None


def two_blocks(arguments, place, how):
    """On the device itself; how: nothing, a flush or FUA between."""
    image = place / "base.img"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    base = place / "start.img"
    power_disks.copy(image, base)
    with Recorder(arguments.bin / "campaign_power_disk", image, place) as disk:
        disk.mark("begin")
        descriptor = os.open(disk.device, os.O_RDWR | os.O_DIRECT | (os.O_DSYNC if how == "fua" else 0))
        write(descriptor, b"a", 1 << 20)
        if how == "flush":
            os.fsync(descriptor)
        write(descriptor, b"b", 2 << 20)
        os.close(descriptor)

    def look(disk):
        with disk.open("rb") as file:
            seen = []
            for letter, at in ((b"a", 1 << 20), (b"b", 2 << 20)):
                file.seek(at)
                seen.append(kind_of(file.read(BLOCK), letter))
        return tuple(seen)
    return outcomes(Recording(base, disk.log), place, look, 300)


def in_a_file(arguments, place, how):
    """In a file of ext4 that has its place already."""
    image, base = place / "base.img", place / "start.img"
    power_disks.make("ext4", image)
    with loop_over(image) as device, mounted(device, place / "mount", "nodiscard") as home:
        (home / "file").write_bytes(b"-" * 4 * BLOCK)
    power_disks.copy(image, base)
    with Recorder(arguments.bin / "campaign_power_disk", image, place) as disk:
        with mounted(disk.device, place / "mount", power_disks.KINDS["ext4"].recorded) as home:
            os.sync()
            disk.mark("begin")
            descriptor = os.open(home / "file", os.O_RDWR | os.O_DIRECT)
            write(descriptor, b"a", 0)
            if how == "flush":
                os.fsync(descriptor)
            write(descriptor, b"b", 2 * BLOCK)
            disk.mark("end")
            os.close(descriptor)

    def look(disk):
        with loop_over(disk) as device, mounted(device, place / "mount", "nodiscard") as home:
            text = (home / "file").read_bytes()
        return kind_of(text[:BLOCK], b"a"), kind_of(text[2 * BLOCK:3 * BLOCK], b"b")
    return outcomes(Recording(base, disk.log, power_disks.KINDS["ext4"]), place, look, 80)


def test(arguments, place):
    """Returns what is wrong with the tester."""
    wrong = []
    for name, story, how, right in (
            ("device", two_blocks, "nothing", WITHOUT), ("device", two_blocks, "flush", WITH),
            ("device", two_blocks, "fua", WITH), ("file", in_a_file, "nothing", WITHOUT),
            ("file", in_a_file, "flush", WITH)):
        seen = story(arguments, place, how)
        whole = {one for one in seen if None not in one}
        torn = any(None in one for one in seen)
        print(f"tester: two blocks of a {name}, {how} between: {len(whole)} outcomes"
              f"{', torn ones besides' if torn else ''}", flush=True)
        # A torn block is possible in each case, since the write before the power failure may be torn.
        if whole != right or not torn:
            wrong.append(f"{name}/{how}: {sorted(whole)}, torn: {torn}")
    sh("rm", "-f", place / "base.img", place / "start.img")
    return wrong
