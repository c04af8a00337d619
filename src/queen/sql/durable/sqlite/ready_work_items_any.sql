-- Items ready now whatever their tag: higher priority first, then longest-waiting; of the names in :names (json list, null: any). Items of
-- sessions are included when the session is free, or held by :owner; free ones only while :may_claim.
select items.id, items.session_id, items.priority, items.ready_at, sessions.owner
from work_items as items
left join sessions on sessions.session_id = items.session_id and sessions.locked_until > :now
where items.ready_at <= :now
  and (:names is null or items.name in (select value from json_each(:names)))
  and (
    items.session_id is null
    or (:owner is not null and (sessions.owner = :owner or (sessions.owner is null and :may_claim)))
  )
order by items.priority desc, items.ready_at, items.id
limit :limit
