"""Questions answered before a run, and runs measured: fit, simulation, in-storage processing, prediction, sweeps."""
