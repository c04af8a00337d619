-- Who waits longest for a place of a group.
select id, instance, execution_id, activity_id, limited, wanted_at from places
where limit_group = :limit_group and ready_at is null
order by id limit 1
