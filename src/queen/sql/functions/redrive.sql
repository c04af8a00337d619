-- Promises: pushes dead letters again as new messages (new transaction id, parent_id = the original); the dead-letter row keeps both. In
--   its own queue a message is for the group that failed: every other known group skips it, unless p_to_all; in another queue
--   (p_to_queue) it is for everyone. A group that is gone gets nothing back: its dead letters stay, without p_to_all. Selection by ids, or by queue, group, error text and time; rows already redriven are left out; of more
--   than p_limit the oldest, so that portions keep the order.
--   p_payload: instead of the stored one (a single id). Returns the number matching; p_dry_run: nothing else happens.
-- Locks: dead-letter rows by id (SKIP LOCKED), then as queen.push_messages.
create or replace function queen.redrive(
    p_ids bigint[] default null, p_queue text default null, p_group text default null, p_error text default null,
    p_before timestamptz default null, p_to_queue text default null, p_payload jsonb default null, p_limit integer default 1000,
    p_dry_run boolean default false, p_to_all boolean default false
) returns table (matched bigint, redriven bigint, queue_ids bigint[])
language plpgsql volatile as $$
declare
    v_ids    bigint[];
    v_queues bigint[] := '{}';
    v_count  bigint := 0;
    v_new    uuid;
    v_row    record;
    d        record;
begin
    if p_dry_run then
        return query select count(*), 0::bigint, v_queues
                       from queen.select_dead_letters(p_ids, p_queue, p_group, p_error, p_before, null, false) s where s.redriven_at is null;
        return;
    end if;
    select coalesce(array_agg(x.id order by x.id), '{}') into v_ids
      from (select dl.id from queen.dead_letter_queue dl
             where dl.id in (select s.id from queen.select_dead_letters(p_ids, p_queue, p_group, p_error, p_before, null, false) s)
               and dl.redriven_at is null
             order by dl.id limit p_limit for update skip locked) x;
    for d in
        select dl.*, q.name as queue_name, p.name as partition_name
          from queen.dead_letter_queue dl
          join queen.queues q on q.id = dl.queue_id
          join queen.partitions p on p.id = dl.partition_id
         where dl.id = any (v_ids)
           and (p_to_all or p_to_queue <> q.name or exists (
                select from queen.subscriptions s where s.queue_id = dl.queue_id and s.consumer_group = dl.consumer_group))
         order by dl.partition_id, dl.seq, dl.id
    loop
        v_new := queen.uuid7();
        select * into v_row from queen.push_messages(
            array[coalesce(p_to_queue, d.queue_name)], array[d.partition_name], array[1], array[0], array[v_new],
            array[coalesce(p_payload, d.payload)], null, array[d.trace_id], array[d.message_id], null, array[d.producer_sub],
            array[d.is_encrypted and p_payload is null]);
        if v_row.status = 'full' then
            perform queen.raise_full(coalesce(p_to_queue, d.queue_name), v_row.depth, v_row.queue_limit);
        end if;
        if not p_to_all and v_row.partition_id = d.partition_id then
            insert into queen.skips (partition_id, consumer_group, seq)
            select d.partition_id, s.consumer_group, v_row.seq
              from queen.subscriptions s where s.queue_id = d.queue_id and s.consumer_group <> d.consumer_group;
            update queen.partitions set has_skips = true where id = d.partition_id and found;
        end if;
        v_count := v_count + 1;
        v_queues := v_queues || v_row.queue_id;
        update queen.dead_letter_queue set redriven_at = queen.clock(), redriven_as = v_new where id = d.id;
    end loop;
    return query select cardinality(v_ids)::bigint, v_count,
                        (select coalesce(array_agg(distinct x), '{}') from unnest(v_queues) x);
end $$;
