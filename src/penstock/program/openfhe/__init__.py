"""Everything that touches OpenFHE: context, evaluator, paged keys, stored ciphertexts and the recorder."""
