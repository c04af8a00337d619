-- Promises: how far the horizon of the server with this timeline, or of one before it, had come when this server took over; null: nothing is
--   known of it. Everything below came from that server.
-- Locks: nothing.
select max(t.position) as position
  from (select (current_setting('queen.ask')::jsonb ->> 'timeline')::integer as timeline) a
  join queen.takeovers t on t.timeline <= a.timeline
