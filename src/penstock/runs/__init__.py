"""Run folders: what a run decided, measured, predicted and simulated."""
