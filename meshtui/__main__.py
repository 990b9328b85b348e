"""``python -m meshtui``; or this file by its path, which runs the package it lies in wherever that is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def _adopt_package() -> None:
    """Make this file's own folder the package ``meshtui``, and nothing else beside it importable."""
    place = Path(__file__).absolute().parent
    sys.path[:] = [entry for entry in sys.path if entry != str(place)]
    spec = importlib.util.spec_from_file_location(
        "meshtui", place / "__init__.py", submodule_search_locations=[str(place)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["meshtui"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    if not __package__:
        _adopt_package()
    from meshtui.cli import main

    main()
