"""Measuring real runs: events, energy, call stacks, instruction counts."""
