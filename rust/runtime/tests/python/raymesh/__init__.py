"""Stands in for the package in tests of the agent: the real zygote, without the native extension."""
