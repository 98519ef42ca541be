"""Jobs of several tenants on one machine, and evaluation keys whose operations run beside them.

`queue` and `schedule` say what runs and in which order, `simulated` how long that takes on paper, `client` is the
tenants' side (the only one with secret keys), `run` executes. `near` is the storage node that owns keys.
"""
