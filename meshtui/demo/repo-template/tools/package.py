"""What the tools for the mesh know of the package: its functions, and a day to call them with."""

import ast
import importlib
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP))
DAY = {"year": 1789, "month": 7, "day": 14}


def source(module):
    return TOP / "almanac" / f"{module}.py"


def functions(module):
    """The functions of a module as the parser sees them, in their order."""
    tree = ast.parse(source(module).read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def everything():
    """Module and function, for every function of the package."""
    modules = sorted(path.stem for path in (TOP / "almanac").glob("[!_]*.py"))
    return [(module, function) for module in modules for function in functions(module)]


def arguments(function):
    return [argument.arg for argument in function.args.args]


def call(module, function):
    """What a function returns for that day."""
    found = getattr(importlib.import_module(f"almanac.{module}"), function.name)
    return found(*(DAY[name] for name in arguments(function)))
