-- Promises: removes up to p_limit partitions that hold no message and had no activity for p_idle, except Default and any with a live lease,
--   dead letters or scheduled messages. Returns how many went. A later push makes them anew, from seq 1.
-- Locks: partition rows with SKIP LOCKED, and by cascade their consumer rows.
create or replace function queen.clean_partitions(p_idle interval default '30 days', p_limit integer default 100) returns bigint
language plpgsql volatile as $$
declare
    v_until timestamptz := queen.clock() - p_idle;
    v_count bigint;
begin
    delete from queen.partitions p
     where p.id in (
        select x.id from queen.partitions x
         where x.idle_since < v_until and x.first_seq = x.next_seq and x.name <> 'Default'
           and not exists (select from queen.partition_consumers c where c.partition_id = x.id and c.lease_id is not null)
           and not exists (select from queen.dead_letter_queue d where d.partition_id = x.id)
           and not exists (select from queen.scheduled_messages s where s.queue_id = x.queue_id and s.partition_name = x.name)
         order by x.idle_since limit p_limit for update of x skip locked);
    get diagnostics v_count = row_count;
    return v_count;
end $$;
