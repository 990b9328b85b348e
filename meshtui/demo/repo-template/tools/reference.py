"""Describes the functions that the package exports, and those that a checker missed in what was there before.

What a checker said stands in the prompt on standard input, from the second iteration on.
"""

import ast
import re
import sys
from pathlib import Path

import package

import almanac

path = Path(sys.argv[1])
missed = re.findall(r"says nothing of (\w+\.\w+)", sys.stdin.read())
lines = ["# Reference"]
for module, function in package.everything():
    name = f"{module}.{function.name}"
    if function.name in almanac.__all__ or name in missed:
        arguments = ", ".join(package.arguments(function))
        lines += ["", f"## {name}({arguments})", "", ast.get_docstring(function)]
path.write_text("\n".join(lines) + "\n", encoding="utf-8")
print(f"{path} describes {sum(line.startswith('## ') for line in lines)} functions")
