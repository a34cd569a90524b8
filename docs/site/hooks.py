"""What MkDocs itself does not do: headers in the navigation, and a search without a server."""
from pathlib import Path

WORKER = "assets/javascripts/search_worker.js"
SHIM = "https://unpkg.com/iframe-worker/shim"  # how the theme would have it; we ask nobody


def named(nav):
    """All pages that a navigation names."""
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(value, list):
            yield from named(value)
        else:
            yield value


def put_headers(nav, pages):
    """Each header has its place below the page of its language, in the reference."""
    for entry in nav:
        for title, place in entry.items() if isinstance(entry, dict) else []:
            if isinstance(place, list):
                put_headers(place, pages)
            elif place in ("reference/cpp.md", "reference/c.md"):
                folder = pages / place.removesuffix(".md")
                entry[title] = [place, *sorted(path.relative_to(pages).as_posix() for path in folder.glob("*.md"))]


def on_config(config):
    pages = Path(config.docs_dir)
    sections = {title: entries for section in config.nav for title, entries in section.items()}
    put_headers(sections["Reference"], pages)
    # A page that has no place yet is the last under "In depth".
    known = set(named(config.nav))
    new = sorted(path.name for path in pages.glob("*.md") if path.name not in known)
    next(entry["In depth"] for entry in sections["How to"] if "In depth" in entry).extend(new)
    return config


def on_post_page(output, page, config):
    return output.replace(SHIM, "../" * page.url.count("/") + WORKER)


def on_post_build(config):
    """A page that was opened as a file may not start a worker from another file, but from a text."""
    site = Path(config.site_dir)
    (worker,) = site.glob("assets/javascripts/workers/search*.js")
    code = worker.read_text(encoding="utf-8").split("//# sourceMappingURL")[0]
    text = "".join({"\\": "\\\\", "`": "\\`", "$": "\\$"}.get(one, one) for one in code)
    (site / WORKER).write_text(
        'if (location.protocol === "file:") {\n  const Plain = Worker;\n'
        "  window.Worker = class extends Plain {\n    constructor() {\n"
        "      super(URL.createObjectURL(new Blob([code], { type: \"text/javascript\" })));\n    }\n  };\n"
        f"  const code = `{text}`;\n}}\n", encoding="utf-8")
    (site / "404.html").unlink()  # for servers
