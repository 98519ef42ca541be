"""Validation of predictions: protocols that hold out, the models that are compared, scores and pictures."""
