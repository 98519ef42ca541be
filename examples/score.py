"""Scores of encrypted people: a logistic function of their features times public weights."""

import numpy as np

PARAMS = "openfhe-demo"  # a name of `penstock params list`, or a .toml file
FEATURES = 16
WEIGHTS = np.linspace(-0.5, 0.5, FEATURES)


def data(size, slots, seed):
    """The input: as many people as have room, a row of features each."""
    return np.random.default_rng(seed).uniform(-1, 1, (slots // FEATURES, FEATURES))


def program(ev, data, size):
    """One score a person, shape (people,)."""
    with ev.scope("client"):
        x = ev.encrypt(data.reshape(-1), name="features")
    with ev.scope("inner product"):
        weights = ev.encode(np.tile(WEIGHTS, len(data)), name="weights")
        s = ev.rescale(ev.mult(x, weights))
        for step in (8, 4, 2, 1):
            s = ev.add(s, ev.rotate(s, step))
    with ev.scope("logistic"):
        s = ev.chebyshev_function(s, lambda t: 1 / (1 + np.exp(-t)), -8, 8, degree=13)
    return np.real(ev.decrypt(s))[::FEATURES]
