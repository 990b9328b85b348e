"""Writes docs/index.md: the pages by their titles, the functions of the package by their docstrings."""

import ast
from pathlib import Path


def pages():
    for path in sorted(Path("docs").glob("*.md")):
        if path.name != "index.md":
            title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
            yield f"- [{title}]({path.name})"


def functions():
    for path in sorted(Path("almanac").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                arguments = ", ".join(argument.arg for argument in node.args.args)
                text = (ast.get_docstring(node) or "").partition("\n")[0]
                yield f"- `{path.stem}.{node.name}({arguments})`: {text}"


lines = ["# Index", "", "## Pages", "", *pages(), "", "## Functions", "", *functions()]
Path("docs/index.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
print(f"docs/index.md has {len(lines)} lines")
