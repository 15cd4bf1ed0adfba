"""Hash codes of whole columns of keys."""
