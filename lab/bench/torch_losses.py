"""The losses of examples/torch, undisturbed and killed: docs/pytorch-losses.svg.

    BUILD/torch-venv/bin/python lab/bench/torch_losses.py [--steps N] [--every N] [--picture FILE]

PYTHONPATH=BUILD/python. A run on a mesh of 2 x 2 is left alone. Another one is killed with all its
ranks, twice, in the middle between two saves, and started again on the same mesh. From the
checkpoint that the first kill left two more runs go on, on 1 x 3 and on 4 x 1, each twice. Then the
same without dropout, from 2 x 2 to 1 x 3, where nothing but the order of sums is another one.
Compares all that must be the same bit by bit, and draws; exit status 1 if something is not.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "examples/torch/train.py")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("OMP_NUM_THREADS", "1")


def ranks_of(mesh):
    return eval(mesh.replace("x", "*"))


def run(directory, mesh, steps, every, kill_after=None, dropout=0.1):
    """Losses by step, as hexadecimal texts, and the step from which the job went on."""
    job = subprocess.Popen(
        [sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
         str(ranks_of(mesh)), PROGRAM, directory, "--mesh", mesh, "--steps", str(steps), "--every",
         str(every), "--dropout", str(dropout)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    losses, begin, told = {}, 0, ""
    for line in job.stdout:
        told += line
        words = line.split()
        if line.startswith("going on from step"):
            begin = int(words[4].rstrip(","))
        if len(words) != 4 or words[0] != "step":
            continue
        losses[int(words[1])] = words[3]
        if int(words[1]) == kill_after:
            with open(f"/proc/{job.pid}/task/{job.pid}/children") as file:
                workers = [int(pid) for pid in file.read().split()]
            for pid in [job.pid, *workers]:
                os.kill(pid, signal.SIGKILL)
    if (job.wait() == 0) != (kill_after is None):
        sys.exit(told)
    return losses, begin


def draw(path, steps, whole, killed, kills, others, without):
    """Two panels: losses, and their differences from the undisturbed run."""
    import math

    width, height, left, top, gap = 720, 230, 64, 34, 46
    number = float.fromhex
    x = lambda step: left + (width - left - 16) * step / steps
    least, most = math.floor(min(map(number, whole.values())) * 2) / 2, 5.0
    upper = lambda loss: top + height * (most - min(loss, most)) / (most - least)
    low, high = -8, 0  # powers of ten
    lower = lambda by: top + height + gap + height * (high - max(low, math.log10(by) if by else low)) / (high - low)
    line = lambda points, colour, more="": (
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" {more} points="'
        + " ".join(f"{a:.1f},{b:.1f}" for a, b in points) + '"/>')
    text = lambda a, b, words, more="": f'<text x="{a:.1f}" y="{b:.1f}" {more}>{words}</text>'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top + 2 * height + gap + 40}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for number_of, base in ((0, top), (1, top + height + gap)):
        out.append(f'<rect x="{left}" y="{base}" width="{width - left - 16}" height="{height}" fill="none" stroke="#888"/>')
    for step in range(0, steps + 1, max(1, steps // 6)):
        out.append(text(x(step), top + 2 * height + gap + 16, step, 'text-anchor="middle"'))
    out.append(text(x(steps / 2), top + 2 * height + gap + 34, "step", 'text-anchor="middle"'))
    for loss in range(math.ceil(least), int(most) + 1):
        out.append(text(left - 8, upper(loss) + 4, loss, 'text-anchor="end"'))
    for power in range(low + 2, high + 1, 2):
        out.append(text(left - 8, lower(10**power) + 4, f"1e{power}", 'text-anchor="end"'))
    out.append(text(left - 8, lower(0) + 4, "0", 'text-anchor="end"'))
    out.append(text(left, top - 8, "loss"))
    out.append(text(left, top + height + gap - 8, "distance from the undisturbed run (at the foot: the same bits)"))
    for step in kills:
        out.append(f'<path d="M{x(step):.1f} {top}V{top + 2 * height + gap}" stroke="#c33" stroke-dasharray="3 3"/>')
    out.append(line([(x(s), upper(number(l))) for s, l in whole.items()], "#bbb", 'stroke-opacity="0.9" style="stroke-width:5"'))
    legend = [("#bbb", "2 x 2, undisturbed"), ("#000", f"2 x 2, killed after steps {' and '.join(map(str, kills))}")]
    curves = [("#000", killed)]
    for (mesh, losses), colour in zip(others.items(), ("#06c", "#080")):
        legend.append((colour, f"{mesh.replace('x', ' x ')}, from the checkpoint of the first kill"))
        curves.append((colour, losses))
    for colour, losses in curves:
        out.append(line([(x(s), upper(number(l))) for s, l in losses.items()], colour))
        out.append(line([(x(s), lower(abs(number(l) - number(whole[s])))) for s, l in losses.items()], colour))
    legend.append(("#d60", "1 x 3 from 2 x 2 without dropout (below)"))
    out.append(line([(x(s), lower(abs(number(without[1][s]) - number(without[0][s]))))
                     for s in without[1]], "#d60"))
    for row, (colour, words) in enumerate(legend):
        y = top + 16 + 17 * row
        out.append(f'<path d="M{width - 330} {y - 4}h24" stroke="{colour}" stroke-width="3"/>')
        out.append(text(width - 300, y, words))
    with open(path, "w") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--every", type=int, default=40, help="steps from save to save")
    parser.add_argument("--picture", default=None)
    options = parser.parse_args()
    steps, every = options.steps, options.every
    kills = [2 * every + every // 2, 4 * every + every // 2]
    with tempfile.TemporaryDirectory() as place:
        whole, _ = run(f"{place}/whole", "2x2", steps, every)
        killed = {}
        for at in (*kills, None):
            losses, begin = run(f"{place}/killed", "2x2", steps, every, at)
            print(f"2x2: from step {begin} to {max(losses)}{', killed' if at else ''}", flush=True)
            # A step that was computed twice must have the same loss.
            assert all(killed.get(step, loss) == loss for step, loss in losses.items())
            killed.update(losses)
            if at == kills[0]:
                for mesh in ("1x3", "4x1"):
                    for copy in "ab":
                        shutil.copytree(f"{place}/killed", f"{place}/{mesh}-{copy}")
        run(f"{place}/plain", "2x2", 2 * every, every, dropout=0)
        shutil.copytree(f"{place}/plain", f"{place}/plain-other")
        without = [run(f"{place}/plain", "2x2", steps, every, dropout=0)[0],
                   run(f"{place}/plain-other", "1x3", steps, every, dropout=0)[0]]
        by = [abs(float.fromhex(without[1][step]) - float.fromhex(without[0][step])) for step in without[1]]
        print(f"1x3 from 2x2 without dropout: {by[0]:.1e} in its first step, {by[9]:.1e} in its tenth, "
              f"{by[-1]:.1e} in its last", flush=True)
        others, right = {}, True
        for mesh in ("1x3", "4x1"):
            (others[mesh], begin), (again, _) = (run(f"{place}/{mesh}-{copy}", mesh, steps, every) for copy in "ab")
            same = others[mesh] == again
            right = right and same and begin == 2 * every
            number = float.fromhex
            by = [abs(number(loss) - number(whole[step])) for step, loss in others[mesh].items()]
            print(f"{mesh}: from step {begin}; twice the same bits: {same}; from the undisturbed run's "
                  f"{by[0]:.1e} in its first step, {sum(by) / len(by):.1e} on average", flush=True)
    same = killed == whole
    print(f"2x2, killed twice: all {len(whole)} losses have the bits of the undisturbed run: {same}")
    if options.picture:
        draw(options.picture, steps, whole, killed, kills, others, without)
    sys.exit(0 if right and same else 1)


main()
