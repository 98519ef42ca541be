"""The program protocol, the readings that need no library, circuits, placement and noise."""
