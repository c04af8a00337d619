-- Commits turns, then carries out a fetch of instances that waits for what they sent.
select instance as acked, ready_at, null::text as instance, null::text as token, null::integer[] as attempts,
       null::text as name, null::text as version, null::integer as execution_id, null::text as status,
       null::text as parent_instance, null::text[] as history, null::bigint[] as message_ids,
       null::bytea[] as bodies, null::text[] as kv_keys, null::text[] as kv_values, null::bigint[] as kv_times,
       null::bigint as server_now, null::bigint as next_due, null::boolean as again
from queen_durable.ack_turns(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44,
    $45, $46, $47, $48, $49, $50, $51
)
union all
select null, null, fetched.*
from queen_durable.fetch_orchestrations($52, $53, $54, $55, $49, false) as fetched
