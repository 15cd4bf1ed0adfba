"""What all rooms use: errors, the spelling of options at each door, late imports, locks, redaction, the table of plug-ins."""
