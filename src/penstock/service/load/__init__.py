"""Open-loop load on a service: when jobs arrive does not depend on when others end."""
