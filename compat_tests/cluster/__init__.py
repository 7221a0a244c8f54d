"""Clusters of several hosts, each an agent process of its own on this machine."""
