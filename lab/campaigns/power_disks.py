"""Disks whose power fails, for the campaign power: a recording of all that happens to a disk, and the disks that a
power failure could leave of it."""
import contextlib
import dataclasses
import random
import subprocess
import time
from pathlib import Path

SECTOR = 512
EXT4 = ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]


@dataclasses.dataclass
class Kind:
    """A file system: what makes it, in what size (the smallest that is taken, or near it), how it is mounted while
    it is recorded, and afterwards. What it does not survive itself is left out: a torn superblock, which is written
    over under one checksum; for XFS, tears within its blocks, since its recovery passes over a block whose torn
    head says that it is new."""
    make: list
    size: int
    recorded: str
    mounted: str
    superblocks: tuple = ((1024, 2048),)
    torn_at: int = SECTOR  # multiples of it


KINDS = {
    "ext4": Kind(EXT4, 64 << 20, "data=ordered,nodiscard", "data=ordered,nodiscard"),
    "ext4_writeback": Kind(EXT4, 64 << 20, "data=writeback,nodiscard", "data=writeback,nodiscard"),
    "ext4_nobarrier": Kind(EXT4, 64 << 20, "nobarrier,nodiscard", "nodiscard"),
    "xfs": Kind(["mkfs.xfs", "-q", "-f", "-K"], 320 << 20, "nodiscard", "nodiscard,nouuid", (), 4096),
    "btrfs": Kind(["mkfs.btrfs", "-q", "-f", "-K"], 160 << 20, "nodiscard", "nodiscard",
                  ((64 << 10, 68 << 10), (64 << 20, (64 << 20) + 4096))),
}


def sh(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {(result.stderr + result.stdout).strip()}")
    return result.stdout.strip()


def copy(image, to):
    to.unlink(missing_ok=True)
    sh("cp", "--sparse=always", image, to)


def wait_for(what, is_there):
    """What another process does is looked for until it is there; the limit only ends a broken run."""
    end = time.monotonic() + 60
    while not is_there():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not after 60 s")
        time.sleep(0.01)


def text_of(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@contextlib.contextmanager
def loop_over(file, *options):
    device = sh("losetup", "-f", "--show", *options, file)
    backing = Path("/sys/block", Path(device).name, "loop/backing_file")
    try:
        yield device
    finally:
        sh("losetup", "-d", device)
        # It keeps the file as long as another process looks at the device, as losetup itself does.
        wait_for(f"the end of {device}", lambda: text_of(backing) != str(file))


@contextlib.contextmanager
def mounted(device, at, options):
    at.mkdir(exist_ok=True)
    sh("mount", "-o", options, device, at)
    try:
        yield at
    finally:
        sh("umount", at)


def make(kind, image):
    """A new file system in a new file."""
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(KINDS[kind].size)
    sh(*KINDS[kind].make, image)


class Recorder:
    """While it is entered, `device` is a loop device over the image, and all its writes and flushes are recorded."""

    def __init__(self, program, image, place):
        self.program, self.image, self.place = program, image, place
        self.served, self.log = place / "served", place / "disk.log"
        self.marks = self.served / "marks"
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        self.served.mkdir(exist_ok=True)
        self.log.unlink(missing_ok=True)
        self.process = subprocess.Popen([str(self.program), str(self.served), str(self.image), str(self.log)])
        self.stack.callback(self.stop)
        try:
            wait_for("the recorded disk", lambda: self.process.poll() is not None or self.marks.exists())
            self.device = self.stack.enter_context(loop_over(self.served / "disk", "--direct-io=on"))
            name = Path(self.device).name
            for what, right in (("loop/dio", "1"), ("queue/write_cache", "write back"), ("queue/fua", "0")):
                found = Path("/sys/block", name, what).read_text().strip()
                if found != right:  # else writes or flushes would not reach the log as they are made
                    raise RuntimeError(f"/sys/block/{name}/{what} is {found}, not {right}")
        except BaseException:
            self.stack.close()
            raise
        return self

    def stop(self):
        if self.process.poll() is None:
            sh("umount", self.served)
        if self.process.wait() != 0:
            raise RuntimeError("the recorded disk failed")

    def __exit__(self, *_):
        self.stack.close()

    def mark(self, text):
        with self.marks.open("wb", buffering=0) as file:
            file.write(text.encode() + b"\n")


class Recording:
    """The image as it was at first, and what happened to it since: events (kind, offset, bytes)."""

    def __init__(self, base, log, kind=None, before=()):
        self.base, self.before, self.events = base, list(before), []
        self.superblocks, self.torn_at = (kind.superblocks, kind.torn_at) if kind else ((), SECTOR)
        data = log.read_bytes()
        at = 0
        while at < len(data):
            kind, offset, size = (int.from_bytes(data[at + 8 * i:at + 8 * i + 8], "little") for i in range(3))
            at += 24 + size
            self.events.append((chr(kind), offset, data[at - size:at]))
        self.flushes = [i for i, event in enumerate(self.events) if event[0] == "F"]

    def count(self, kind):
        return sum(event[0] == kind for event in self.events)

    def marks(self, until=None):
        """Lines of the marks before an event, after those of an earlier recording."""
        text = b"".join(event[2] for event in self.events[:until] if event[0] == "M")
        return self.before + text.decode().splitlines()

    def last_flush(self, cut):
        """The event after the last flush before the cut."""
        return max((flush + 1 for flush in self.flushes if flush < cut), default=0)

    def cuts(self, number, chance):
        """So many events, in their order, before which the power fails; chosen by epoch (what is between two
        flushes), since an epoch with many writes is not more important than one with few."""
        ends = [*self.flushes, len(self.events)]
        epochs = [(begin, end) for begin, end in zip([0, *[flush + 1 for flush in self.flushes]], ends) if end > begin]
        if not epochs:
            return []
        result = []
        for _ in range(number):
            begin, end = chance.choice(epochs)
            marks = [i + 1 for i in range(begin, end) if self.events[i][0] == "M"]
            draw = chance.random()
            result.append(chance.choice(marks) if marks and draw < 0.4 else
                          end if draw < 0.8 else chance.randint(begin, end))
        return sorted(result)

    def choice(self, cut, chance):
        """What is there of the writes since the last flush: (offset, bytes), torn ones in several parts."""
        share = chance.choice([0.0, 0.1, 0.5, 0.5, 0.5, 0.9, 1.0])
        tears = chance.choice([0.0, 0.5])
        there = []
        for kind, offset, data in self.events[self.last_flush(cut):cut]:
            if kind != "W":
                continue
            is_super = any(offset < end and offset + len(data) > begin for begin, end in self.superblocks)
            if len(data) > self.torn_at and not is_super and chance.random() < tears * (1 - share * 0.8):
                there += [part for part in self.parts(offset, data) if chance.random() < 0.5]
            elif chance.random() < share:
                there.append((offset, data))
        return there

    def parts(self, offset, data):
        """Pieces between multiples of what it is torn at."""
        ends = [*range(self.torn_at - offset % self.torn_at, len(data), self.torn_at), len(data)]
        return [(offset + begin, data[begin:end]) for begin, end in zip([0, *ends], ends)]


class Failures:
    """Images of disks after power failures. Cuts must not decrease."""

    def __init__(self, recording, place):
        self.recording, self.durable, self.image = recording, place / "durable.img", place / "disk.img"
        copy(recording.base, self.durable)
        self.reached = 0

    def disk(self, cut, chance):
        flushed = self.recording.last_flush(cut)
        self.write(self.durable, [event[1:] for event in self.recording.events[self.reached:flushed]
                                  if event[0] == "W"])
        self.reached = max(self.reached, flushed)
        copy(self.durable, self.image)
        self.write(self.image, self.recording.choice(cut, chance))
        return self.image

    @staticmethod
    def write(image, writes):
        with image.open("r+b", buffering=0) as file:
            for offset, data in writes:
                file.seek(offset)
                if file.write(data) != len(data):
                    raise RuntimeError(f"{image} is short of room")


def seeded(seed, cut, number):
    return random.Random(f"{seed}/{cut}/{number}")
