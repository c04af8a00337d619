-- Appends events; a second event with the same id is refused by the primary key.
insert into queen_durable.history (instance, execution_id, event_id, kind, data)
select * from unnest($1::text[], $2::integer[], $3::integer[], $4::text[], $5::text[])
