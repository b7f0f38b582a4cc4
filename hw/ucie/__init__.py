"""Die-to-die transport: transaction format, credited ports, channel and pacer."""
