"""Scripts that tests record in processes of their own: looking for doctests in them would run each."""

collect_ignore_glob = ["*.py"]
