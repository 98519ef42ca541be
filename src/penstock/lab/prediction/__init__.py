"""Prediction: measured primitives, the machine fitted to them, and what programs will take on it."""
