"""`python -m raymesh`: the command line."""

from __future__ import annotations

from raymesh.cli import main

if __name__ == "__main__":
    main()
