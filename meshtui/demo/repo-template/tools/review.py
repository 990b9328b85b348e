"""What the mesh starts as a checker, in the place of a coding agent: a script and no AI that has a few rules.

It gets the change as a diff on standard input, looks at the working copy, changes nothing, and replies in JSON.
"""

import json
import re
import sys
from pathlib import Path

import package

REFERENCE = "docs/reference.md"

diff = sys.stdin.read()
changed = re.findall(r"^\+\+\+ b/(.+)$", diff, re.MULTILINE)
findings = [
    f"{name} has white space at the end of line {number}"
    for name in changed
    for number, line in enumerate(Path(name).read_text(encoding="utf-8").splitlines(), 1)
    if line != line.rstrip()
]
if REFERENCE in changed:
    text = Path(REFERENCE).read_text(encoding="utf-8")
    names = [f"{module}.{function.name}" for module, function in package.everything()]
    findings += [f"{REFERENCE} says nothing of {name}" for name in names if f"## {name}(" not in text]
print(json.dumps({"approved": not findings, "findings": findings}))
