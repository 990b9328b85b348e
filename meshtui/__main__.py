"""``python -m meshtui``."""

from meshtui.cli import main

if __name__ == "__main__":
    main()
