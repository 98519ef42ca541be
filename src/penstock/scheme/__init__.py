"""Schemes without data: operations, parameter sets, traces, the work and the price of an operation, machines."""
