"""How much a save every ten seconds slows Gray-Scott down."""
import shutil
import statistics

import turns

INTERVAL = 10  # seconds between saves


def measure(launcher, options, np):
    """Turns of a few seconds of the same running program, in an order drawn for each repetition:
    steps alone, and steps with a save before them. The cost of a save is the median of the
    differences within a repetition: turns that are near in time share the machine's speed,
    which changes between whole runs by more than a save costs."""
    folder = options.directory / "cairn_bench_application"
    program = turns.Program("application_bench", launcher + [options.build / "bin" / "application_bench", folder,
                                                             str(options.side), str(options.seconds)])
    try:
        samples = {what: one["seconds"] for (_, what), one in turns.compete([program], options.repetitions).items()}
        note, size = program.note, int(program.contestants[0]["bytes"])
    finally:
        program.end()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nGray-Scott, {options.side} x {options.side} cells ({size >> 20} MiB a save), np = {np}: turns of {note}, "
          f"{options.repetitions} repetitions after a dropped one\n"
          f"{'':24} {'s: min   median      max':>26} {'a save costs: median, quartiles':>34} {f'so one every {INTERVAL} s':>18}")
    alone, rows = samples["no save"], []
    for what, sample in samples.items():
        differences = [b - a for a, b in zip(alone, sample)]
        low, cost, high = statistics.quantiles(differences * 2 if len(differences) == 1 else differences, n=4,
                                               method="inclusive")
        overhead = cost / INTERVAL
        beside = f"{cost:17.3f} s, {low:.3f} to {high:.3f} {100 * overhead:15.1f} %" if what != "no save" else ""
        print(f"{what:24} {min(sample):8.2f} {statistics.median(sample):8.2f} {max(sample):8.2f} {beside}", flush=True)
        rows.append({"measure": "application", "what": what, "state": "Gray-Scott", "bytes": size, "mib": size >> 20,
                     "np": np, "unit": "s", "repetitions": len(sample), "min": min(sample),
                     "median": statistics.median(sample), "max": max(sample), "ratio_to_raw": 1 + overhead,
                     "seconds_of_a_save": cost, "quartiles": [low, high], "overhead": overhead})
    return rows
