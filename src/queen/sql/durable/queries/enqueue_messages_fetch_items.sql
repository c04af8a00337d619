-- Sends messages to instances, then carries out a fetch of instances ($7) that waits for them.
select accepted, visible_at, null::text as instance, null::text as token, null::integer[] as attempts,
       null::text as name, null::text as version, null::integer as execution_id, null::text as status,
       null::text as parent_instance, null::text[] as history, null::integer as last_event_id, null::bigint as identity, null::boolean as owned,
       null::bigint[] as message_ids, null::bytea[] as bodies, null::text[] as kv_keys, null::text[] as kv_values,
       null::bigint[] as kv_times, null::bigint as server_now, null::bigint as next_due, null::boolean as again
from queen_durable.enqueue_messages($1, $2, $3, $4, $5, $6)
union all
select null, null, fetched.*
from queen_durable.fetch_orchestrations($7, $4, false) as fetched
