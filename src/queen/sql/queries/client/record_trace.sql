-- Writes a note about a message, filed under a name when one is given; returns nothing when there is no such message.
with note as (
    insert into queen.traces (partition_id, transaction_id, message_id, consumer_group, event_type, data, created_at)
    select m.partition_id, $2, m.id, $3, $4, $5::jsonb, queen.clock()
      from queen.messages m where m.partition_id = $1 and m.seq = queen.find_message($1, $2)
    returning id
), filed as (
    insert into queen.trace_names (trace_name, trace_id) select $6::text, note.id from note where $6::text is not null
)
select id from note
