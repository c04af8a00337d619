-- The old way of acknowledging a batch: its status rows, the cursor row and the lease row.
with done as (
    update bare.messages_status set status = 'completed', completed_at = now(), lease_expires_at = null
     where message_id = any ($1::uuid[]) and consumer_group = 'g'
), moved as (
    update bare.partition_cursors set last_message_id = ($1::uuid[])[1], total = total + cardinality($1::uuid[]), updated_at = now()
     where partition_id = $2 and consumer_group = 'g'
)
update bare.partition_leases set lease_id = null, released_at = now() where partition_id = $2 and consumer_group = 'g'
