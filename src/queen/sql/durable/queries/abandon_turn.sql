-- Gives an instance back; see functions/abandon_turn.sql.
select instance, ready_at from queen_durable.abandon_turn($1, $2, $3, $4)
