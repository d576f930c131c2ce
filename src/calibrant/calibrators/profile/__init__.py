"""The log-partition function of rows, from which the temperature family is fitted."""
