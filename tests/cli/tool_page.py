"""docs/tool.md against the tool itself: commands, their options and examples.

usage: tool_page.py CAIRN PAGE
How CLI11 lays help out differs between its versions, so lines are not compared.
"""
import re
import subprocess
import sys


def told(tool, *words):
    return subprocess.run([tool, *words, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout


def marks(text):
    """Names of options, and examples."""
    examples = text.partition("\nExamples:\n")[2]
    return set(re.findall(r"--[a-z][a-z-]*", text)) - {"--help"}, [line.strip() for line in examples.splitlines()
                                                                   if line.startswith("  cairn ")]


def main():
    tool, page = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    parts = dict(re.findall(r"^## cairn (\w+)\n.*\n```text\n((?:.*\n)*?)```$", text, re.MULTILINE))
    commands = set(re.findall(r"^  (\w+) ", told(tool).partition("Subcommands:")[2], re.MULTILINE))
    faults = [f"cairn {name} is missing" for name in commands - set(parts)]
    faults += [f"there is no cairn {name}" for name in set(parts) - commands]
    for name in commands & set(parts):
        if marks(parts[name]) != marks(told(tool, name)):
            faults.append(f"cairn {name}: the page says {marks(parts[name])}, the tool {marks(told(tool, name))}")
    if len(commands) < 10:
        faults.append(f"only {len(commands)} commands were found")
    print("\n".join(faults) if faults else f"{page} has all {len(commands)} commands")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
