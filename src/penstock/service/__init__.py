"""Jobs of several tenants on one machine, and key nodes that compute where the evaluation keys are.

`queue` and `schedule` say what runs and in which order, `simulated` how long that takes on paper, `client` is the
tenants' side (the only one with secret keys), `run` executes. `near` is the storage node that owns keys.
"""
