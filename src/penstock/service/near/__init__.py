"""Near-data evaluation: a node that owns evaluation keys and executes the operations that read them.

`frames` defines the messages, `link` a connection (throttled to measure a slower network), `node` the server, `remote`
the two ways to compute with its keys: sending ciphertexts to it, or pulling rows of keys from it.
"""
