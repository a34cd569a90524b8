"""The words of messages, by the table that all tests share: tests/golden/messages.inc."""
import json
import re
from pathlib import Path

ROW = re.compile(r'^(?:SAYS\((".*")\)|SAYS_NOW\((".*"), (".*")\))$', re.MULTILINE)
TABLE = {}
for phrase, old, words in ROW.findall((Path(__file__).parents[1] / "golden/messages.inc").read_text(encoding="utf-8")):
    if "\\x" not in phrase + old:
        TABLE[json.loads(phrase or old)] = json.loads(phrase or words)


def says(phrase):
    """The library's words for a phrase of the table."""
    return TABLE[phrase]
