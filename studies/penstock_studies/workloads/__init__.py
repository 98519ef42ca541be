"""CryptOracle's programs, as workloads of penstock: `matrix_multiplication` is `cryptoracle-matrix-multiplication`."""
