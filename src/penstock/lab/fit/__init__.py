"""A machine from measurements: records, regression, calibration and held-out scores."""
