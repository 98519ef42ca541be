"""The inside of operations: graphs of kernels on the units of a machine, by list scheduling."""
