"""Step 5: nothing to do; the pixels are encrypted as they are."""
