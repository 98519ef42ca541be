"""Which primitives to time next, by what their times would tell about programs (Bayesian optimal design)."""
