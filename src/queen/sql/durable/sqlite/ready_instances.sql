-- Instances that may be handed out now, longest-waiting first: those whose code is in :handlers (json list, null: any), and those
-- nothing is known of. With :ranges (json pairs of packed versions) only those whose current execution has a pinned version in one
-- of them, or none.
select keys.routing_key
from mailbox_keys as keys
left join instances on :ranges is not null and instances.instance = keys.routing_key
where keys.queue = :queue
  and keys.ready_at <= :now
  and (:handlers is null or keys.handler = '' or keys.handler in (select value from json_each(:handlers)))
  and (
    :ranges is null
    or instances.pinned_version is null
    or exists (
        select 1 from json_each(:ranges) as bounds
        where instances.pinned_version between json_extract(bounds.value, '$[0]') and json_extract(bounds.value, '$[1]')
    )
  )
order by keys.ready_at, keys.routing_key
limit :limit
