"""A hook of mkdocs that leaves out what only a server reads: its links begin at the root of a site, not of a folder."""

from __future__ import annotations

from typing import Any

ONLY_OF_A_SERVER = ("404.html", "sitemap.xml")


def on_config(config: Any) -> Any:
    """Take these pages off the list of the theme's own."""
    config.theme.static_templates.difference_update(ONLY_OF_A_SERVER)
    return config
