-- Appends events; a second event with the same id is refused by the primary key.
insert into queen_durable.history (instance, execution_id, event_id, kind, data)
select $1, $2, e.id, e.kind, e.data from unnest($3::integer[], $4::text[], $5::text[]) as e (id, kind, data)
