"""How much saves every ten seconds slow Gray-Scott down."""
import shutil
import statistics
import subprocess
import time

INTERVAL = 10  # seconds between saves


def run(launcher, options, steps, every, extra):
    folder = options.directory / "cairn_bench_application"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["sync", "-f", str(options.directory)], check=True)
    command = launcher + [options.build / "bin" / "gray_scott", "--size", str(options.side), "--steps", str(steps),
                          "--no-progress"]
    if extra is not None:
        command += ["--checkpoint-dir", folder, "--checkpoint-every", str(every), "--max-to-keep", "1",
                    "--restart", "none", *extra]
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    shutil.rmtree(folder, ignore_errors=True)
    return seconds


def measure(launcher, options, np):
    """Each repetition runs all three, one after the other and in another order each time; the
    overhead is the median over repetitions of the quotient of neighbours."""
    few = 20 if options.side > 1024 else 200
    start_up = run(launcher, options, 1, 1, None)
    a_step = max(1e-6, (run(launcher, options, few, few, None) - start_up) / (few - 1))
    interval = min(INTERVAL, options.seconds / 3)
    steps, every = max(2, round(options.seconds / a_step)), max(1, round(interval / a_step))
    ways = {"no saves": None, "blocking saves": [], "asynchronous saves": ["--async"]}
    names, seconds = list(ways), {name: [] for name in ways}
    for repetition in range(-1, options.repetitions):
        names = names[1:] + names[:1]
        took = {name: run(launcher, options, steps, every, ways[name]) for name in names}
        if repetition >= 0:
            for name in ways:
                seconds[name].append(took[name])
    size = 2 * 8 * options.side ** 2
    print(f"\nGray-Scott, {options.side} x {options.side} cells ({size >> 20} MiB a save), np = {np}: {steps} steps, "
          f"a save every {every} steps ({interval:.0f} s by {a_step * 1e3:.1f} ms a step), "
          f"{options.repetitions} repetitions after a dropped one")
    rows = []
    for name, sample in seconds.items():
        overhead = statistics.median(b / a for a, b in zip(seconds["no saves"], sample)) - 1
        print(f"{name:24} {min(sample):8.2f} {statistics.median(sample):8.2f} {max(sample):8.2f} s"
              f"   overhead {100 * overhead:5.1f} %", flush=True)
        rows.append({"measure": "application", "what": name, "state": "Gray-Scott", "bytes": size, "mib": size >> 20, "np": np,
                     "unit": "s", "repetitions": len(sample), "min": min(sample),
                     "median": statistics.median(sample), "max": max(sample),
                     "ratio_to_raw": 1 + overhead, "overhead": overhead})
    return rows
