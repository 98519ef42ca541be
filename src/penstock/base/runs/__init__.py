"""Run folders: the decisions, measurements, predictions and simulations of a run."""
