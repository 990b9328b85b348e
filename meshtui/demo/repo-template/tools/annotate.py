"""Annotates the functions of a module of the package: what they take are numbers, what they return is tried."""

import sys

import package

module = sys.argv[1]
path = package.source(module)
lines = path.read_text(encoding="utf-8").splitlines()
for function in package.functions(module):
    takes = ", ".join(f"{name}: int" for name in package.arguments(function))
    returns = type(package.call(module, function)).__name__
    line = f"def {function.name}({takes}) -> {returns}:"
    if lines[function.lineno - 1] != line:
        lines[function.lineno - 1] = line
        print(line)
path.write_text("\n".join(lines) + "\n", encoding="utf-8")
