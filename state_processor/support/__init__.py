"""What all rooms use: errors, the spelling of options at each door, late imports, locks, recycled memory, redaction."""
