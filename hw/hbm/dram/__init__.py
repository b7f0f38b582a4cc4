"""The HBM controller: one scheduler a pseudo-channel, and the spreading of requests over all."""
