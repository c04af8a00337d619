-- Lets an item run from :ready_at on.
update work_items set ready_at = :ready_at
where instance = :instance and execution_id = :execution_id and activity_id = :activity_id
