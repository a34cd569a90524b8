"""Programs that take turns: each prints a line of "@ " and JSON with its contestants, then answers
"run NUMBER" with seconds. Whose turn it is, is drawn anew in each repetition."""
import json
import random
import statistics
import subprocess


class Program:
    def __init__(self, name, command, environment=None):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        hello = self.answer()
        self.np, self.note, self.contestants = hello["np"], hello.get("note", ""), hello["contestants"]

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("@ "):
                return json.loads(line[2:])
        status = self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()
        raise RuntimeError(f"{self.name} ended with status {status}; its messages are above")

    def run(self, number):
        self.process.stdin.write(f"run {number}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        if self.process.poll() is None and not self.process.stdin.closed:
            try:
                self.process.stdin.write("end\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def reads(turn):
    program, number = turn
    return program.contestants[number]["measure"].startswith("restore")


def compete(programs, repetitions, seed, samples):
    """Adds the samples of each measure and contestant, without the first repetition: {(measure,
    what): {seconds, cpu, bytes, yardstick, against}}. Caches are dropped before contestants
    that read; these come after all that write, which would otherwise look for their directories
    on the disk, unlike those of a job."""
    turns = [(program, number) for program in programs for number in range(len(program.contestants))]
    shuffled = random.Random(seed)
    for some in ([turn for turn in turns if not reads(turn)], [turn for turn in turns if reads(turn)]):
        for repetition in range(-1, repetitions):
            shuffled.shuffle(some)
            for program, number in some:
                one, answer = program.contestants[number], program.run(number)
                if repetition >= 0:
                    take(samples, one, answer)


def take(samples, one, answer):
    def add(measure, what, time, against, yardstick):
        entry = samples.setdefault((measure, what), {"seconds": [], "cpu": [], "bytes": one["bytes"],
                                                     "against": against, "yardstick": yardstick})
        entry["seconds"].append(time["seconds"])
        entry["cpu"].append(time.get("cpu_seconds", 0))

    add(one["measure"], one["what"], answer, one.get("against", one["measure"]), one["yardstick"])
    for part in answer.get("also", []):
        add(part["measure"], part["what"], part, "save, steady", False)


def median(sample):
    return statistics.median(sample["seconds"])


def yardstick(samples, measure):
    """Seconds for each byte of the best plain I/O of a measure; None if there was none."""
    plain = [median(one) / one["bytes"] for (name, _), one in samples.items()
             if name == measure and one["yardstick"]]
    return min(plain, default=None)


def rows(samples, np, state):
    """One row for each contestant; GB/s, so that more is better, and the ratio to the best plain
    I/O likewise."""
    table = []
    order = sorted(samples.items(), key=lambda item: (item[0][0], item[1]["yardstick"] is False, item[0][1]))
    for (measure, what), one in order:
        speed = sorted(one["bytes"] / seconds * 1e-9 for seconds in one["seconds"])
        raw = yardstick(samples, one["against"])
        table.append({
            "measure": measure, "what": what, "state": state, "bytes": int(one["bytes"]), "np": np,
            "unit": "GB/s", "repetitions": len(speed), "min": speed[0],
            "median": one["bytes"] / median(one) * 1e-9, "max": speed[-1],
            "ratio_to_raw": raw * one["bytes"] / median(one) if raw else None,
            "cpu_seconds_of_rank_0": statistics.median(one["cpu"])})
    return table
