"""What MkDocs itself does not do: headers in the navigation, and a search without a server."""
from pathlib import Path

WORKER = "assets/javascripts/search_worker.js"
SHIM = "https://unpkg.com/iframe-worker/shim"  # how the theme would have it; we ask nobody


def on_config(config):
    """Each header has its place below the page of its language."""
    pages = Path(config.docs_dir)
    for section in config.nav:
        for entries in section.values():
            for entry in entries if isinstance(entries, list) else []:
                for title, place in entry.items() if isinstance(entry, dict) else []:
                    folder = pages / str(place).removesuffix(".md")
                    if place in ("reference/cpp.md", "reference/c.md"):
                        found = sorted(path.relative_to(pages).as_posix() for path in folder.glob("*.md"))
                        entry[title] = [place, *found]
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
