"""Feeding files into the log: readers, times, delays, merge by arrival, encoding, producing."""
