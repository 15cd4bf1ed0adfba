"""Tables for terminals and notebooks, and progress bars."""
