"""Circuits: programs made of primitives, used by workloads and as the expansion of the library's composites."""
