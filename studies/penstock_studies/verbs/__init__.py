"""The commands of `penstock reproduce`, one file a study. penstock finds them by entry points."""
