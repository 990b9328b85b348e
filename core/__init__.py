"""The engine: everything meshtui does without a screen.

Import it as ``meshtui.core``. The folder sits at the top of the project, so ``import core`` from there
would load every class a second time, and two copies of one class never compare equal; it is refused.
"""

if __name__ != "meshtui.core":
    raise ImportError(f"import meshtui.core, not {__name__}")
