-- Queues an activity.
insert into work_items (instance, execution_id, activity_id, name, session_id, tag, priority, body, ready_at, limited)
values (:instance, :execution_id, :activity_id, :name, :session_id, :tag, :priority, :body, :now, :limited)
