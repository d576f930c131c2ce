"""Rows and where they come from: checks, weights, folds, bins, files of scores, data sets."""
