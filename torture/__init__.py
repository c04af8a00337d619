"""A rack for Queen: everything it can do at once, while everything around it breaks, and a checker that knows better.

`python -m torture` runs it; docs/operate/torture.md says how to read and repeat a run.
"""
