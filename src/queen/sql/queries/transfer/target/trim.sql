-- Takes back from the target what has to be copied again, and what the source removed at the front. $1 ids, $2 from which time on to copy again
-- (null: nothing), $3 and $4 the position of the first message the source has (null: none). Returns each partition's last seq, the
-- position of that message, and whether anything was taken back.
with asked as materialized (
    select n.id, p.first_seq, p.next_seq,
           case when n.at is null then p.next_seq - 1
                else queen_transfer.seq_of(n.id, n.at - interval '1 microsecond', 'ffffffff-ffff-ffff-ffff-ffffffffffff') end as kept,
           case when n.first_id is null then p.next_seq
                else queen_transfer.seq_of(n.id, n.first_at, n.first_id) + 1
                     - exists (select from messages m where m.partition_id = n.id and m.id = n.first_id
                                  and m.seq = queen_transfer.seq_of(n.id, n.first_at, n.first_id))::integer end as first
      from unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::uuid[]) n(id, at, first_at, first_id)
      join partitions p on p.id = n.id
), decided as materialized (
    select a.*, greatest(least(a.first, a.kept + 1), a.first_seq) as new_first from asked a
), deleted as (
    delete from messages m using decided d where m.partition_id = d.id and m.seq > d.kept
), removed as (
    delete from messages m using decided d where m.partition_id = d.id and m.seq < d.new_first and m.seq <= d.kept
), moved as (
    update partitions p set first_seq = d.new_first, next_seq = greatest(d.kept + 1, d.new_first) from decided d
     where p.id = d.id and (p.first_seq, p.next_seq) <> (d.new_first, greatest(d.kept + 1, d.new_first))
)
select d.id, greatest(d.kept, d.new_first - 1) as last_seq,
       case when d.kept >= d.new_first then m.created_at end as created_at, case when d.kept >= d.new_first then m.id end as message_id,
       d.new_first > d.first_seq or d.kept < d.next_seq - 1 as taken
  from decided d left join messages m on m.partition_id = d.id and m.seq = d.kept
