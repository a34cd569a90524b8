"""Two trees of Cairn in one run: each contest is run by both, one right after the other."""
import random
import statistics

import turns


def contests(program):
    return {(one["measure"], one["what"]): number for number, one in enumerate(program.contestants)}


def compete(programs, repetitions, seed, samples):
    """Like turns.compete, for the contests that both programs have. Returns the samples of the
    first and of the second. Which of the two comes first in a contest alternates from one
    repetition to the next."""
    known = [contests(program) for program in programs]
    shared = [key for key in known[0] if key in known[1]]
    for key in [key for some in known for key in some if key not in shared]:
        print(f"left out, since only one of the trees has it: {', '.join(key)}", flush=True)
    shuffled = random.Random(seed)
    for some in ([key for key in shared if not key[0].startswith("restore")],
                 [key for key in shared if key[0].startswith("restore")]):
        for repetition in range(-1, repetitions):
            shuffled.shuffle(some)
            for key in some:
                first = (repetition + seed + shared.index(key)) % 2
                for which in (first, 1 - first):
                    number = known[which][key]
                    answer = programs[which].run(number)
                    if repetition >= 0:
                        turns.take(samples[which], programs[which].contestants[number], answer)


def summary(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def rows(this, other):
    """One row for each contest: how fast both are, compared with the best plain I/O of both
    together, and how many times as fast as the other this tree is, by pairs of neighbours."""
    both = {key: {**one, "seconds": one["seconds"] + other[key]["seconds"]} for key, one in this.items()
            if key in other}
    table = []
    for key, one in sorted(this.items(), key=lambda item: (item[0][0], item[1]["yardstick"] is False, item[0][1])):
        if key not in both:
            continue
        raw = turns.yardstick(both, one["against"])
        row = {"measure": key[0], "what": key[1], "repetitions": len(one["seconds"])}
        for name, sample in ("this", one), ("other", other[key]):
            row[name] = summary([raw * sample["bytes"] / seconds for seconds in sample["seconds"]]) if raw else None
        row["ratio"] = summary([b / a for a, b in zip(one["seconds"], other[key]["seconds"])])
        table.append(row)
    return table


def show(table, title):
    def text(values):
        return f"{values['median']:6.2f} ({values['min']:.2f} .. {values['max']:.2f})" if values else ""

    print(f"\n{title}: medians and ranges; more is faster")
    print(f"{'':32} {'':52} {'x raw, this tree':24} {'x raw, the other':24} {'x the other':24}")
    for row in table:
        print(f"{row['measure']:32} {row['what']:52} {text(row['this']):24} {text(row['other']):24} "
              f"{text(row['ratio']):24}", flush=True)
