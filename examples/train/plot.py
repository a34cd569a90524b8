"""Draws losses, as an SVG picture, with nothing but Python.

usage: plot.py PICTURE.svg NAME=FILE...
A FILE has lines `step N loss X …` as `train` prints them. Where a step is there more than once, as
after a restart, all of them are drawn. Later files are drawn thinner, over the earlier ones.
"""
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 900, 480, 60, 20, 20, 40
COLOURS = ["#f0b060", "#2060c0", "#208050", "#c03030"]

curves = []
for argument in sys.argv[2:]:
    name, _, path = argument.partition("=")
    with open(path, encoding="utf-8") as file:
        words = [line.split() for line in file if line.startswith("step ")]
    curves.append((name, [(int(w[1]), float.fromhex(w[3])) for w in words]))
points = [point for _, curve in curves for point in curve]
if not points:
    sys.exit("no losses; " + __doc__.split("\n\n")[1])
first, last = min(p[0] for p in points), max(p[0] for p in points)
low, high = min(p[1] for p in points), max(p[1] for p in points)


def place(step, loss):
    x = LEFT + (step - first) / max(1, last - first) * (WIDTH - LEFT - RIGHT)
    y = TOP + (high - loss) / max(1e-9, high - low) * (HEIGHT - TOP - BOTTOM)
    return f"{x:.2f},{y:.2f}"


def text(x, y, words, anchor="middle", colour="#404040"):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
       'font-family="sans-serif" font-size="13">', '<rect width="100%" height="100%" fill="white"/>']
for part in range(6):
    loss, step = low + (high - low) * part / 5, round(first + (last - first) * part / 5)
    (x, _), (_, y) = place(step, low).split(","), place(first, loss).split(",")
    svg.append(f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#e0e0e0"/>')
    svg += [text(LEFT - 6, y, f"{loss:.2f}", "end"), text(x, HEIGHT - BOTTOM + 18, str(step))]
svg.append(text(WIDTH // 2, HEIGHT - 6, "step; the loss of each, in nats a character"))
for number, (name, curve) in enumerate(curves):
    colour = COLOURS[number % len(COLOURS)]
    drawn = " ".join(place(*point) for point in curve)
    svg.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" '
               f'stroke-width="{max(1, 6 - 4 * number)}" stroke-linejoin="round"/>')
    svg.append(text(WIDTH - RIGHT, TOP + 20 * number + 14, f"{name} ({len(curve)} steps)", "end", colour))
with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write("\n".join(svg + ["</svg>\n"]))
print(f"{sys.argv[1]}: {len(curves)} curves, steps {first} to {last}")
