"""Run ``python -m research.notes``."""

from research.notes.command import main

if __name__ == "__main__":
    main(prog_name="python -m research.notes")
