"""Parameterized Temperature Scaling (ECCV 2022): its networks, data loaders and experiments."""
