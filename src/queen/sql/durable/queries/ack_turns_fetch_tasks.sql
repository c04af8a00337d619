-- Commits turns, then carries out a fetch of work items that waits for what they scheduled.
select instance as acked, ready_at, null::text as token, null::integer as attempt, null::text as instance,
       null::integer as execution_id, null::integer as activity_id, null::text as body, null::bigint as server_now,
       null::bigint as next_due, null::boolean as again
from queen_durable.ack_turns(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44,
    $45, $46, $47, $48, $49, $50, $51
)
union all
select null, null, fetched.*
from queen_durable.fetch_work_items($52, $53, $54, $55, $56, $57, $49, false) as fetched
