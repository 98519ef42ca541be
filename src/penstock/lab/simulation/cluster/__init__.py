"""Several hosts: partitions, messages, networks and topologies."""
