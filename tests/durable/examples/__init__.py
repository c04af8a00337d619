"""The examples about workflows, run as a user runs them."""
