"""Jobs on packages as they arrive: worker processes compute them, one order over all tenants."""
