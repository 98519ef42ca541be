"""Programs performed: the store of keys, the native reading, the client, encrypted databases on disk."""
