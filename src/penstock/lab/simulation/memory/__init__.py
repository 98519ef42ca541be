"""One host: caches, levels of memory and tiers."""
