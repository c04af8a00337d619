-- A service counts as late from its last success on, or from the moment it was first run.
alter table queen.service_leases add column registered_at timestamptz not null default clock_timestamp();
