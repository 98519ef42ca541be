"""The native reading: programs on penstock's own evaluator, with streamed keys."""
