"""Jobs of several tenants on one machine, and key nodes that compute where the evaluation keys are.

`work` admits and orders jobs and holds the workers, `http` is the front of `penstock serve`, `owners` keeps the clients
of the tenants of `run --tenants` (the only part with secret keys), `near` is the storage node that owns keys, `load`
sends jobs.
"""
