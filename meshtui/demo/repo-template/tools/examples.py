"""Gives the functions of a module examples that doctest can run.

At first it expects what print would show, which is not always what the prompt of Python shows. Where the gate
refused that, it takes what doctest got, out of the prompt on standard input.
"""

import re
import sys

import package

REFUSED = re.compile(r"Failed example:\n +(.+)\nExpected:\n +(.+)\nGot:\n +(.+)\n")

module = sys.argv[1]
path = package.source(module)
text = path.read_text(encoding="utf-8")
refused = REFUSED.findall(sys.stdin.read())
for example, expected, got in refused:
    text = text.replace(f">>> {example}\n    {expected}\n", f">>> {example}\n    {got}\n")
    print(f"{example} shows {got}, not {expected}")
for function in reversed(package.functions(module)) if not refused else []:
    lines = text.splitlines()
    number = function.body[0].lineno - 1
    values = ", ".join(str(package.DAY[name]) for name in package.arguments(function))
    example = [f"    >>> {function.name}({values})", f"    {package.call(module, function)}"]
    lines[number : number + 1] = [lines[number].removesuffix('"""'), "", *example, '    """']
    text = "\n".join(lines) + "\n"
    print(example[0].strip())
path.write_text(text, encoding="utf-8")
