"""The benchmark suite: primitives, microbenchmarks and workloads, from a sweep file to tables that can be compared."""
