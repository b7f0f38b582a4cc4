"""Trace formats: each module reads one, line by line, into ``Turn``s."""
