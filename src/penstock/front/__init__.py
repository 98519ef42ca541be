"""Doors of the house: `import penstock`, the pages of the explorer, the command line."""
