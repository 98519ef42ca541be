"""Near-data evaluation: a node that owns evaluation keys and executes the operations that read them.

`frames` is what travels, `link` a connection (throttled where a slower network is to be measured), `node` the server,
`remote` the two ways to compute with its keys: sending ciphertexts to it, or pulling rows of keys from it.
"""
