"""The page of `cairn report` in a browser: both colour schemes, and nothing wider than a phone.

usage: report_browser.py CAIRN GRAY_SCOTT     (exit status 77: there is no Chromium, skipped)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    print("SKIPPED: no Chromium")
    sys.exit(77)


def run(folder, *words):
    common = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
              "--allow-file-access-from-files", f"--user-data-dir={folder}/profile"]
    done = subprocess.run(common + list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120, check=True, text=True)
    return done.stdout


def first_pixel(path):
    """The first pixel of a PNG with 8 bits for each channel. The first row's filter does not
    change it."""
    data = open(path, "rb").read()
    body, at = b"", 8
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT":
            body += data[at + 8:at + 8 + size]
        at += 12 + size
    return tuple(zlib.decompress(body)[1:4])


def main():
    tool, simulation = sys.argv[1:]
    browser()
    with tempfile.TemporaryDirectory() as folder:
        directory = os.path.join(folder, "run")
        subprocess.run([simulation, "--size=64", "--steps=600", "--checkpoint-every=10",
                        f"--checkpoint-dir={directory}", "--no-progress"], check=True,
                       stdout=subprocess.DEVNULL)
        page = os.path.join(folder, "report.html")
        subprocess.run([tool, "report", directory, "-o", page], check=True)
        dark = "--blink-settings=preferredColorScheme=0"
        for scheme, words, expected in (("light", [], (255, 255, 255)),
                                        ("dark", [dark], (0x14, 0x16, 0x1a))):
            picture = os.path.join(folder, scheme + ".png")
            run(folder, *words, "--window-size=400,2000", f"--screenshot={picture}",
                "file://" + page)
            assert first_pixel(picture) == expected, (scheme, first_pixel(picture))
        # In a frame as wide as a phone's screen nothing may be wider.
        frame = os.path.join(folder, "frame.html")
        with open(frame, "w") as out:
            out.write('<iframe src="report.html" style="width:360px;height:640px" onload="'
                      'const d=this.contentDocument;document.title=[d.documentElement.scrollWidth,'
                      "d.querySelectorAll('svg').length,d.querySelectorAll('section').length]"
                      '"></iframe>')
        dom = run(folder, "--virtual-time-budget=5000", "--dump-dom", "file://" + frame)
        width, drawings, sections = map(int, re.search(r"<title>([\d,]+)</title>",
                                                       dom).group(1).split(","))
        assert width <= 360, f"the page is {width} pixels wide in a frame of 360"
        assert drawings >= 5, f"only {drawings} drawings"
        assert sections == 6, f"{sections} sections"
    print("the page is right in both colour schemes and fits a phone")


if __name__ == "__main__":
    main()
