-- Commits turns, finishes work items, then fetches instances and work items, each only when there is something to do: one
-- transaction, in this order, so that a fetch finds what was just sent. Each row says which part it belongs to.
select 'turn' as part, turn.instance, turn.ready_at, null::boolean as held, null::text as token,
       null::integer[] as attempts, null::text as name, null::text as version, null::integer as execution_id,
       null::text as status, null::text as parent_instance, null::text[] as history, null::bigint[] as message_ids,
       null::bytea[] as bodies, null::text[] as kv_keys, null::text[] as kv_values, null::bigint[] as kv_times,
       null::integer as attempt, null::integer as activity_id, null::text as body,
       null::bigint as server_now, null::bigint as next_due, null::boolean as again
from queen_durable.ack_turns(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48,
    $50, $62, $63, $64
) as turn
where cardinality($1::text[]) > 0
union all
select 'finished', null, null, finished.held, null, null, null, null, null, null, null, null, null, null, null, null,
       null, null, null, null, null, null, null
from queen_durable.ack_work_items(
    $49, $50, $51, $52, $53, $54, $55, $56, $57, $58, $59, $60, $61, $62, $63, $64, $65
) as finished
where cardinality($49::text[]) > 0
union all
select 'item', item.instance, null, null, item.token, item.attempts, item.name, item.version, item.execution_id,
       item.status, item.parent_instance, item.history, item.message_ids, item.bodies, item.kv_keys, item.kv_values,
       item.kv_times, null, null, null, item.server_now, item.next_due, item.again
from queen_durable.fetch_orchestrations($66, $67, $68, $69, $62, $65) as item
where $66::integer > 0
union all
select 'task', task.instance, null, null, task.token, null, null, null, task.execution_id, null, null, null, null,
       null, null, null, null, task.attempt, task.activity_id, task.body, task.server_now, task.next_due, task.again
from queen_durable.fetch_work_items($70, $71, $72, $73, $74, $75, $62, $65) as task
where $70::integer > 0
