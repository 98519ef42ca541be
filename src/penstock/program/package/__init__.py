"""Programs that travel: the calls of a program on encrypted vectors, with its constants, as data."""
