-- The queues of the target know the groups of the source (incoming_groups). Returns the queues whose groups changed: the cursors of all
-- their partitions have to be looked at again.
with changed as (
    insert into subscriptions (queue_id, consumer_group, mode, start_at, filled, created_at, used_at)
    select q.id, i.consumer_group, i.mode, i.start_at, true, i.created_at, now()
      from incoming_groups i join queues q on q.name = i.queue_name
        on conflict (queue_id, consumer_group) do update set mode = excluded.mode, start_at = excluded.start_at
     where (subscriptions.mode, subscriptions.start_at) is distinct from (excluded.mode, excluded.start_at)
    returning queue_id
), removed as (
    delete from subscriptions s using queues q
     where q.id = s.queue_id and not exists (select from incoming_groups i where i.queue_name = q.name and i.consumer_group = s.consumer_group)
       and $1::boolean
    returning s.queue_id
)
select queue_id from changed union select queue_id from removed
