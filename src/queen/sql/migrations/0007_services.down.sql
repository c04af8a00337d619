alter table queen.service_leases drop column registered_at;
