"""The kernel algebra: how much of each kernel an operation is."""
