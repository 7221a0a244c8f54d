"""Unit tests of the Python package that start no runtime."""
