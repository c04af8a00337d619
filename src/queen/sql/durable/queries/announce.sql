-- Notes which code a live worker has ($1 queues, $2 names), and forgets what nobody has had for $3 ms.
with known as (
    insert into queen_durable.handlers as h (queue, name, seen_at)
    select queue, name, queen_durable.clock_ms($4) from unnest($1::text[], $2::text[]) as had (queue, name)
    order by queue, name
    on conflict (queue, name) do update set seen_at = greatest(h.seen_at, excluded.seen_at)
)
delete from queen_durable.handlers h where h.seen_at < queen_durable.clock_ms($4) - $3::bigint
