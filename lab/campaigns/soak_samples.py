"""Samples of the ranks of jobs while they run: memory, descriptors, threads; and how many files
there are."""
import os
import time
from pathlib import Path

SETTLED = 20  # seconds until a rank has all its memory; a quarter of its life on a busy machine
SAVES = 2  # of its job until then: on a busy machine the first may come later
LONG = 60  # seconds that one must have lived to be judged, half of them settled
MEMORY = 1024  # KiB that do not count as growth
FILES = 8  # files of one more checkpoint, of more ranks, or of a pending save


def held_by(process):
    """When it began, since a busy machine gives its number to another within minutes; and (KiB of its own,
    descriptors, threads)."""
    place = Path(f"/proc/{process}")
    began = (place / "stat").read_text().rpartition(")")[2].split()[19]
    status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
    return began, (int(status["RssAnon"].split()[0]), len(os.listdir(place / "fd")), int(status["Threads"]))


class Samples:
    def __init__(self):
        self.ranks, self.files = {}, {}

    def take(self, job, processes, files=0, saves=None):
        """`saves`: of the job until now; none: its processes have not to do with any."""
        now = time.monotonic()
        for process in processes:
            try:
                began, held = held_by(process)
            except (OSError, KeyError):  # it has ended
                continue
            self.ranks.setdefault(job, {}).setdefault((process, began), []).append((now, saves, *held))
        self.files.setdefault(job, []).append(files)

    def lives(self, job):
        """For each rank that lived long enough: the first quarter of its settled life, and the
        last. The most memory, and the fewest descriptors and threads, since a save has more of
        them for a moment."""
        for samples in self.ranks.get(job, {}).values():
            life = samples[-1][0] - samples[0][0]
            if life < LONG:
                continue
            begin = samples[0][0] + max(SETTLED, life / 4)
            settled = [sample for sample in samples if sample[0] >= begin and (
                sample[1] is None or sample[1] >= samples[0][1] + SAVES)]
            if not settled or settled[-1][0] - settled[0][0] < LONG / 2:
                continue
            settled = [sample[2:] for sample in settled]
            quarter = max(1, len(settled) // 4)
            yield (life, self.steady(settled[:quarter]), self.steady(settled[-quarter:]))

    @staticmethod
    def steady(samples):
        memory, descriptors, threads = zip(*samples)
        return max(memory), min(descriptors), min(threads)

    def most_files(self, job):
        counts = self.files.get(job, [0, 0])
        half = max(1, len(counts) // 2)
        return max(counts[:half]), max(counts[half:], default=0)

    def unjudged(self, job):
        """What could not be judged of a job that was watched to its end."""
        if any(self.lives(job)):
            return []
        return [f"no rank lived for {LONG} s, so that nothing is known of its memory, descriptors and threads: "
                "give more minutes, or a longer pause between attacks"]

    def wrong(self, job, spare_files=FILES, spare_descriptors=0):
        found = []
        for seconds, first, last in self.lives(job):
            for what, before, after, more in zip(("KiB of memory", "descriptors", "threads"), first, last,
                                                 (MEMORY, spare_descriptors, 0)):
                if after > before + more:
                    found.append(f"a rank had {before} {what}, and {after} after {seconds:.0f} s")
        before, after = self.most_files(job)
        if after > before + spare_files:
            found.append(f"{before} files at most in the first half, {after} in the second")
        return found

    def text(self, job):
        lives = list(self.lives(job))
        if not lives:
            return f"  no rank lived for {LONG} s; files at most {' then '.join(map(str, self.most_files(job)))}"
        growth = [last[0] - first[0] for _, first, last in lives]
        return (f"  {len(lives)} ranks of {len(self.ranks[job])} lived for {LONG} s, the longest for "
                f"{max(life[0] for life in lives):.0f} s: memory {min(f[0] for _, f, _ in lives) / 1024:.1f} to "
                f"{max(f[0] for _, f, _ in lives) / 1024:.1f} MiB, grown by {min(growth)} to {max(growth)} KiB; "
                f"descriptors {sorted({l[1] for _, _, l in lives})}, threads {sorted({l[2] for _, _, l in lives})}; "
                f"files at most {' then '.join(map(str, self.most_files(job)))}")
