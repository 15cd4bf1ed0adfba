"""Java's own encodings: hash codes, murmur, object streams."""
