"""Many rows: streams of files, Ray clusters, and monitoring over time."""
