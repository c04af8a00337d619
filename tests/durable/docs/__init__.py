"""The pages about workflows say what is true."""
