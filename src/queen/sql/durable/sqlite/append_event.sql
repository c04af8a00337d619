-- Appends one event; changes no row when there is one with that id.
insert into history (instance, execution_id, event_id, kind, data)
values (:instance, :execution_id, :event_id, :kind, :data)
on conflict do nothing
