"""How much a save every ten seconds slows Gray-Scott down."""
import statistics

import turns

INTERVAL = 10  # seconds between saves


def measure(launcher, options, np):
    """Turns of a few seconds of the same running program, in an order drawn anew in each repetition: steps alone, steps
    with a save before them. What a save costs is the median of the differences in the same repetition, which have the
    same speed of the machine more than whole runs would."""
    folder = options.directory / "cairn_bench_application"
    program = turns.Program("application_bench", launcher + [options.build / "bin" / "application_bench", folder,
                                                             str(options.side), str(options.seconds)])
    try:
        samples = {what: one["seconds"] for (_, what), one in turns.compete([program], options.repetitions).items()}
        note, size = program.note, int(program.contestants[0]["bytes"])
    finally:
        program.end()
    print(f"\nGray-Scott, {options.side} x {options.side} cells ({size >> 20} MiB a save), np = {np}: turns of {note}, "
          f"{options.repetitions} repetitions after a dropped one\n"
          f"{'':24} {'s: min   median      max':>26} {'a save costs':>15} {f'overhead, one every {INTERVAL} s':>27}")
    alone, rows = samples["no save"], []
    for what, sample in samples.items():
        cost = statistics.median(b - a for a, b in zip(alone, sample))
        overhead = cost / INTERVAL
        beside = f"{cost:13.3f} s {100 * overhead:25.1f} %" if what != "no save" else ""
        print(f"{what:24} {min(sample):8.2f} {statistics.median(sample):8.2f} {max(sample):8.2f} {beside}", flush=True)
        rows.append({"measure": "application", "what": what, "state": "Gray-Scott", "bytes": size, "mib": size >> 20,
                     "np": np, "unit": "s", "repetitions": len(sample), "min": min(sample),
                     "median": statistics.median(sample), "max": max(sample), "ratio_to_raw": 1 + overhead,
                     "seconds_of_a_save": cost, "overhead": overhead})
    return rows
