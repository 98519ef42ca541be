"""The state of the service: its tables, its clock, its folder, tokens, and the refusals that all routes share."""
