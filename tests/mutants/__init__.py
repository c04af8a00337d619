"""Planted defects: a list of them, and what shows that each is noticed by the test that is about it.

`make mutants` plants every one in a copy of the project; `python -m tests.mutants --help` says what else can be done.
A defect is an entry of one of the lists beside this file, named after what is wrong then:

    [a-late-ack-is-refused]
    breaks = "What somebody would see, in a sentence."
    file = 'sql/functions/move_cursors.sql'      below src/queen
    old = 'the text that is replaced'            it must be there once, or as often as `times` says
    new = 'what stands there instead'
    also = [{ file = ..., old = ..., new = ... }]    further changes, if it takes several
    noticed_by = ["tests/engine/test_ack.py::test_a_late_ack_counts_while_its_token_is_there"]
    slow = true                                  where its tests take more than a few seconds

Every test named must fail with it. Whoever changes the text plants the defect anew; a defect that no test notices is a
test that is missing.
"""
