"""The functions of `import penstock`, one module a subject. `penstock/__init__.py` lists them."""
