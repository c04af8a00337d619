-- Promises: staged rows of the partitions whose transaction id is stored already, or came earlier in the batch, are gone from the stage.
-- Locks: nothing more than the caller holds (the partition rows).
create or replace function queen.drop_duplicates(p_stage text, p_stages bigint[], p_parts bigint[], p_ids bigint[]) returns void
language plpgsql volatile as $$
begin
    execute format($sql$
        with lanes as materialized (
            select p.id, q.name as queue, p.name as partition
              from queen.partitions p join queen.queues q on q.id = p.queue_id where p.id = any ($3)
        ), named as materialized (
            select s.ctid as row, l.id as lane, s.transaction_id,
                   row_number() over (partition by l.id, s.transaction_id order by s.place) as copy
              from queen.%1$I s join lanes l on l.queue = s.queue and l.partition = s.partition
             where s.stage = any ($1) and s.part = any ($2) and s.transaction_id is not null
        )
        delete from queen.%1$I s
         where s.ctid = any (array(
            select n.row from named n
             where n.copy > 1 or exists (select from queen.messages m
                                          where m.partition_id = n.lane and m.transaction_id = n.transaction_id)))$sql$, p_stage)
      using p_stages, p_parts, p_ids;
end $$;
