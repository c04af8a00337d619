"""Defects planted into the code: tests notice them."""
