"""Finds paths in tracked files that only one machine has."""
import re
import subprocess
from pathlib import Path

# Top folders that every machine has; a path that begins with one (/tmp, /usr/include) is allowed.
SHARED_TOPS = {"bin", "dev", "etc", "home", "lib", "media", "mnt", "opt", "proc", "root", "run",
               "sbin", "srv", "sys", "tmp", "usr", "var", "src"}


def tracked_files(root):
    try:
        listing = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z"], cwd=root,
                                 check=True, capture_output=True).stdout.decode()
        return [Path(name) for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        return [path.relative_to(root) for path in root.rglob("*")
                if path.is_file() and not path.relative_to(root).parts[0].startswith("build")]


def machine_paths(root):
    """A pattern of paths that exist on one machine only: home folders, and the place of this tree."""
    patterns = [r"/home/[a-z]", r"/Users/[A-Za-z]", r"/root[/]"]
    if len(root.parts) > (3 if root.parts[1] in SHARED_TOPS else 2):
        patterns.append(re.escape(str(root)) + r"(?![\w-])")
    return re.compile(r"(?<![\w.})\]*$-])(" + "|".join(patterns) + ")")


def check_paths(root):
    pattern = machine_paths(root)
    for path in tracked_files(root):
        try:
            text = (root / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue  # binary, or deleted and not yet committed
        for number, line in enumerate(text.splitlines(), 1):
            if found := pattern.search(line):
                yield f"{path}:{number}: '{found.group(1)}' is a path of one machine only"
