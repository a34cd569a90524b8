#!/usr/bin/env python3
"""Opens the site in a headless browser. usage: check.py SITE PICTURES

Pages are there and have no errors on the console; no request leaves the machine; the search finds
what is on a page; tabs show the language that was chosen; nothing is wider than a phone. Pictures of
some pages in both colour schemes are left in PICTURES. Exit status 1 if anything is wrong.
"""
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
SHOWN = ["index.html", "start.html", "howto/save.html", "howto/slurm.html", "reference/cpp/checkpoint_manager.html",
         "reference/fortran.html", "reference/python.html", "state.html", "performance.html", "tool.html"]
# What is looked for, and the page that must be among the first.
SEARCHES = {"max_to_keep": "python.html", "save_async": "asynchronous.html", "MaxShardSizePolicy": "sharding",
            "cairn_manager_should_save": "reference/c/manager.html", "ragged": "state.html",
            "requeue": "slurm.html", "restore_latest": "reference/"}


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    sys.exit("there is no Chromium")


class Visit:
    """A page of a browser that notes what goes wrong in it."""

    def __init__(self, browser, faults, **settings):
        self.page = browser.new_page(**settings)
        self.page.set_default_timeout(10000)
        self.faults, self.at = faults, ""
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.fault(said.text))
        self.page.on("pageerror", lambda error: self.fault(str(error)))
        # What a page was still loading when it was left is no fault.
        self.page.on("requestfailed", lambda request: request.failure == "net::ERR_ABORTED" or
                     self.fault(f"{request.url} does not load: {request.failure}"))
        self.page.on("request", lambda request: request.url.split(":")[0] in ("file", "data", "blob") or
                     self.fault(f"asks for {request.url}"))

    def fault(self, text):
        self.faults.append(f"{self.at}: {text}")

    def open(self, site, name):
        self.at = name
        self.page.goto((site / name).as_uri())

    def width(self):
        return self.page.evaluate("document.documentElement.scrollWidth")


def check_search(visit, site):
    for words, expected in SEARCHES.items():
        visit.at = f"search for {words}"
        visit.page.goto(f"{(site / 'index.html').as_uri()}?q={words}")
        visit.page.wait_for_selector(".md-search-result__link")
        found = visit.page.eval_on_selector_all(".md-search-result__link", "all => all.map(one => one.href)")
        if not any(expected in link for link in found[:12]):
            visit.fault(f"{expected} is not among {found[:12]}")


def check_tabs(visit, site):
    visit.open(site, "howto/save.html")
    visit.page.click(".tabbed-labels label:has-text('Fortran')")
    if not visit.page.is_visible("text=call manager%save(step, state)"):
        visit.fault("the tab of Fortran shows nothing")
    visit.open(site, "howto/restore.html")
    if not visit.page.is_visible("text=call manager%restore_latest"):
        visit.fault("the language that was chosen is not remembered")


def main(arguments):
    if len(arguments) != 2:
        print(__doc__)
        return 2
    site, pictures = (Path(one).resolve() for one in arguments)
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    faults = [f"{name} is not there" for name in SHOWN if name not in pages]
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu",
                                                                          "--allow-file-access-from-files"])
        phone = Visit(browser, faults, viewport=PHONE)
        for name in pages:
            phone.open(site, name)
            if phone.width() > PHONE["width"]:
                phone.fault(f"is {phone.width()} pixels wide on a phone")
            if not phone.page.title() or not phone.page.locator("h1").count():
                phone.fault("has no title")
        for scheme in ("light", "dark"):
            desk = Visit(browser, faults, viewport=DESK, color_scheme=scheme)
            colours = set()
            for name in SHOWN:
                desk.open(site, name)
                colours.add(desk.page.evaluate("getComputedStyle(document.body).backgroundColor"))
                desk.page.screenshot(path=pictures / f"{name.replace('/', '-')[:-5]}-{scheme}.png")
            if len(colours) != 1 or ("rgb(255, 255, 255)" in colours) != (scheme == "light"):
                desk.fault(f"the background is {colours} in the {scheme} scheme")
        for name in ("index.html", "howto/save.html"):
            phone.open(site, name)
            phone.page.screenshot(path=pictures / f"{name.replace('/', '-')[:-5]}-phone.png")
        check_search(desk, site)
        desk.page.screenshot(path=pictures / "search.png")
        check_tabs(desk, site)
        browser.close()
    right = f"{len(pages)} pages are right on a desk and on a phone; pictures: {pictures}"
    print("\n".join(faults) if faults else right)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
