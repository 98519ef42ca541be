"""Which primitives to time next, by what their times would tell about the time of programs (Bayesian optimal design)."""
