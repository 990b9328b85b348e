"""Sorts the imports at the top of every Python file below the folders named: the library's own go first."""

import ast
import sys
from pathlib import Path


def order(node):
    name = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
    ours = name.partition(".")[0] not in sys.stdlib_module_names
    return ours, isinstance(node, ast.ImportFrom), name


def sort_imports(text):
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not nodes:
        return text
    lines = text.splitlines()
    first, last = nodes[0].lineno - 1, nodes[-1].end_lineno
    found = []
    for node in sorted(nodes, key=order):
        if found and order(node)[0] != order(before)[0]:
            found.append("")
        found += lines[node.lineno - 1 : node.end_lineno]
        before = node
    return "\n".join([*lines[:first], *found, *lines[last:]]) + "\n"


def main(folders):
    for path in sorted(file for folder in folders for file in Path(folder).rglob("*.py")):
        before = path.read_text(encoding="utf-8")
        after = sort_imports(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"sorted the imports of {path}")


main(sys.argv[1:])
