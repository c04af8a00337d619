-- Items that have been ready since :before and whose code no live worker has announced since, as ready_work_items_any.
select items.id, items.session_id, items.priority, items.ready_at, null
from work_items as items
where items.ready_at <= :before
  and items.session_id is null
  and items.name <> ''
  and not exists (
    select 1 from handlers
    where handlers.queue = 'worker' and handlers.name = items.name and handlers.seen_at > :before
  )
order by items.priority desc, items.ready_at, items.id
limit :limit
