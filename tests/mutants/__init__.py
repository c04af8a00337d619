"""Planted defects: a list of them, and what shows that each is noticed by the test that is about it.

`make mutants` plants every one in a copy of the project; `python -m tests.mutants --help` says what else can be done.
"""
