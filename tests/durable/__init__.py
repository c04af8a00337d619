"""Durable workflows."""
