"""Published clients against the real broker."""
