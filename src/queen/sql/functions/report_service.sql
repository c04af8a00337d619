-- Promises: notes how a tick of a service ended: its result, or its error.
-- Locks: the service's row.
create or replace function queen.report_service(p_service text, p_holder text, p_result jsonb, p_error text) returns void
language sql volatile as $$
    update queen.service_leases
       set last_success = case when p_error is null then queen.clock() else last_success end,
           last_result = coalesce(p_result, last_result),
           last_error_at = case when p_error is not null then queen.clock() else last_error_at end,
           last_error = coalesce(p_error, last_error)
     where service = p_service and holder = p_holder
$$;
