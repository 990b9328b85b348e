"""Gives every Python file below the folders named four spaces for a tab and no white space at the end."""

import sys
from pathlib import Path


def tidy(text):
    lines = [line.expandtabs(4).rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip("\n") + "\n" if any(lines) else ""


def main(folders):
    for path in sorted(file for folder in folders for file in Path(folder).rglob("*.py")):
        before = path.read_text(encoding="utf-8")
        after = tidy(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"tidied {path}")


main(sys.argv[1:])
