-- Promises: the items that are stored already, by the place of the item: where its transaction id is there in its partition, made by
--   whomever. One the server made up (it is the text of the message's id, and says so) is not in the index: it is looked for among the
--   messages stored since five minutes before it was made, for all items of a partition together. p_careful: items without a
--   transaction id are looked for in the same way, by their id; an attempt of unknown outcome would have left them there.
-- Locks: nothing.
create or replace function queen.find_known(
    p_lane integer[], p_id uuid[], p_transaction_id text[], p_ids bigint[], p_careful boolean, p_now timestamptz
) returns table (item integer, seq bigint, message_id uuid)
language plpgsql volatile as $$
declare
    l record;
begin
    return query
        select i.place::integer, m.seq, m.id
          from unnest(p_id, p_lane, p_transaction_id) with ordinality i(id, lane, transaction_id, place)
         cross join lateral (select x.seq, x.id from queen.messages x
                              where x.partition_id = p_ids[coalesce(i.lane, 1)]
                                and x.transaction_id = coalesce(i.transaction_id, case when p_careful then i.id::text end) limit 1) m;
    for l in
        select p_ids[coalesce(i.lane, 1)] as partition, array_agg(s.id) as sought, array_agg(i.place::integer) as places
          from unnest(p_id, p_lane, p_transaction_id) with ordinality i(id, lane, transaction_id, place)
         cross join lateral (select case when i.transaction_id is null and p_careful then i.id
                                         when i.transaction_id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-751e-[0-9a-f]{4}-[0-9a-f]{12}$'
                                         then i.transaction_id::uuid end as id) s
         where s.id is not null group by 1
    loop
        return query select l.places[array_position(l.sought, t.id)], t.seq, t.id from queen.find_in_tail(l.partition, l.sought, p_now) t;
    end loop;
end $$;
