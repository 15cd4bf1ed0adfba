"""Java's own encodings: hash codes, object streams."""
