"""The benchmark suite: primitives, microbenchmarks and workloads, from a suite to tables that can be compared."""
