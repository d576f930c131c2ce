"""Papers whose evidence this package rebuilds."""
