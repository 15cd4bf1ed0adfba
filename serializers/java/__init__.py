"""What Java itself does with bytes: hash codes, murmur, object streams."""
