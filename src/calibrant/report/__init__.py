"""One self-contained page about a model and its calibrators."""
