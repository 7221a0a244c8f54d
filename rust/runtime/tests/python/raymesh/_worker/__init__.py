"""This folder first (for ``main``), then the real one."""

import pathlib

_REAL = pathlib.Path(__file__).resolve().parents[6] / "raymesh" / "_worker"
__path__ = [str(pathlib.Path(__file__).parent), str(_REAL)]
