"""Files, temporary folders, processes, interrupts, progress, TOML and facts about the host."""
