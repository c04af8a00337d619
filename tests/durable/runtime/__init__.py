"""The whole runtime on real stores."""
