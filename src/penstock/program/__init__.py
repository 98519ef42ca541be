"""Programs: the evaluator that they are written for, its readings, packages, the workloads that ship, OpenFHE."""
