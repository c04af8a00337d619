-- The savepoint was only a question.
release savepoint queen_push
