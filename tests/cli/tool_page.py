"""docs/tool.md against the tool itself: commands, their options and examples.

usage: tool_page.py CAIRN PAGE [--write]     (--write: makes the page right)
How CLI11 lays help out differs between its versions, so lines are not compared.
"""
import re
import subprocess
import sys
import textwrap


def told(tool, *words):
    return subprocess.run([tool, *words, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout


def marks(text):
    """The names of options, and the examples."""
    examples = text.partition("\nExamples:\n")[2]
    return set(re.findall(r"--[a-z][a-z-]*", text)) - {"--help"}, [line.strip() for line in examples.splitlines()
                                                                   if line.startswith("  cairn ")]


def wrapped(line):
    """A line of help, wrapped to fit a page; texts of options begin in column 28, at the latest."""
    if len(line) <= 100 or line.startswith("  cairn "):
        return [line]
    if line.startswith("  "):
        return [line[:28] + textwrap.fill(line[28:].strip(), 70).replace("\n", "\n" + " " * 28)]
    return textwrap.wrap(line, 96)


def section(tool, name):
    """The part of the page about a command."""
    first, _, rest = told(tool, name).rstrip().partition("\n")
    rest = rest.replace("Usage: ", "", 1)
    lines = [line.rstrip() for line in rest.split("\n") if "-h,--help" not in line]
    text = "\n".join(one for line in lines for one in wrapped(line)).replace("\nOptions:\n\n", "\n")
    return f"## cairn {name}\n{first}.\n```text\n{text}\n```\n"


def main():
    tool, page = sys.argv[1:3]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    parts = dict(re.findall(r"^## cairn (\w+)\n.*\n```text\n((?:.*\n)*?)```$", text, re.MULTILINE))
    listed = re.split("subcommands:", told(tool), flags=re.IGNORECASE)[-1]
    commands = set(re.findall(r"^  (\w+) ", listed, re.MULTILINE))
    if sys.argv[3:] == ["--write"]:
        order = [name for name in parts if name in commands] + sorted(commands - set(parts))
        with open(page, "w", encoding="utf-8") as file:
            file.write(text.partition("## ")[0] + "\n".join(section(tool, name) for name in order))
        return
    faults = [f"cairn {name} is missing" for name in commands - set(parts)]
    faults += [f"there is no cairn {name}" for name in set(parts) - commands]
    for name in commands & set(parts):
        if marks(parts[name]) != marks(told(tool, name)):
            faults.append(f"cairn {name}: the page says {marks(parts[name])}, the tool {marks(told(tool, name))}")
    if len(commands) < 10:
        faults.append(f"only {len(commands)} commands were found")
    if faults:
        faults.append(f"{sys.argv[0]} CAIRN {page} --write makes it right")
    print("\n".join(faults) if faults else f"{page} has all {len(commands)} commands")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
