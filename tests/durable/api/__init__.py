"""The surface users write against."""
