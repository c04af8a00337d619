-- Commits turns, finishes work items, then fetches instances and work items, each only when there is something to do: one
-- transaction, in this order, so that a fetch finds what was just sent. Each row says which part it belongs to.
--   turns:    $1 turns  $2 events  $3 values  $4 tasks  $5 cancelled activities  $6 messages  $7 withdrawn  $8 letters  $9 pushes
--   results:  $10 tokens  $11 completions  $12 pushes
--   the call: $13 clock  $14 channel  $15 notice  $16 relaxed
--   fetches:  $17 wanted instances  $18 wanted work items (null: none)
select 'turn' as part, turn.instance, turn.ready_at, null::boolean as held, null::text as token,
       null::integer[] as attempts, null::text as name, null::text as version, null::integer as execution_id,
       null::text as status, null::text as parent_instance, null::text[] as history, null::integer as last_event_id,
       null::bigint as identity, null::boolean as owned, null::bigint[] as message_ids, null::bytea[] as bodies, null::text[] as kv_keys, null::text[] as kv_values,
       null::bigint[] as kv_times, null::integer as attempt, null::integer as activity_id, null::text as body,
       null::bigint as server_now, null::bigint as next_due, null::boolean as again
from queen_durable.ack_turns($1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $13, $14, $15) as turn
where cardinality($1::queen_durable.turn_row[]) > 0
union all
select 'finished', null, null, finished.held, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
       null, null, null, null, null, null, null
from queen_durable.ack_work_items($10, $11, $12, $13, $14, $15, $16) as finished
where cardinality($10::text[]) > 0
union all
select 'item', item.instance, null, null, item.token, item.attempts, item.name, item.version, item.execution_id,
       item.status, item.parent_instance, item.history, item.last_event_id, item.identity, item.owned, item.message_ids, item.bodies, item.kv_keys,
       item.kv_values, item.kv_times, null, null, null, item.server_now, item.next_due, item.again
from queen_durable.fetch_orchestrations($17, $13, $16) as item
where $17::queen_durable.wanted_instances is distinct from null
union all
select 'task', task.instance, null, null, task.token, null, null, null, task.execution_id, null, null, null, null, null,
       null, null, null, null, null, null, task.attempt, task.activity_id, task.body, task.server_now, task.next_due, task.again
from queen_durable.fetch_work_items($18, $13, $16) as task
where $18::queen_durable.wanted_tasks is distinct from null
