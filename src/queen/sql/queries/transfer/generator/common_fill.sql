-- Queues, partitions, messages; every choice follows from the seed and a number, so that the same seed makes the same database.
create function pg_temp.chance(text, bigint, integer) returns integer
language sql immutable as $$ select (hashtextextended($1, $2) & 2147483647)::integer % $3 $$;

create function pg_temp.made(text, bigint) returns uuid
language sql immutable as $$ select md5($1 || ':' || $2)::uuid $$;

insert into queen.queues (id, name, namespace, task, priority, lease_time, retry_limit, retry_delay, max_size, ttl, retention_seconds,
                          completed_retention_seconds, encryption_enabled, max_queue_size, created_at)
select pg_temp.made(w.seed || 'queue', n), 'shop.orders-' || n, 'shop', 'orders-' || n, n % 3, 60 + n, 1 + n % 5, 100 * n, 10000, 3600,
       n * 60, n * 30, n % 3 = 0, case when n % 4 = 0 then 100000000 else 0 end, timestamptz '2024-01-01' + make_interval(mins => n)
  from wanted w, generate_series(1, w.queues) n;

insert into queen.partitions (id, queue_id, name, created_at, last_activity)
select pg_temp.made(w.seed || 'partition', n), pg_temp.made(w.seed || 'queue', 1 + n % w.queues),
       case when n <= w.queues then 'Default' else 'customer-' || n end, timestamptz '2024-01-02', timestamptz '2024-02-01'
  from wanted w, generate_series(1, w.partitions) n;

-- One partition in eight is left empty, and a quarter of the rest has three times as much as the others. Three in a row share a time.
create temporary table spread as
select row_number() over () as place, n as number
  from wanted w, generate_series(1, w.partitions) n, generate_series(1, case when n % 4 = 1 then 3 else 1 end)
 where n % 8 <> 7 or w.partitions < 8;

insert into queen.messages (id, transaction_id, trace_id, partition_id, payload, created_at, is_encrypted)
select pg_temp.made(w.seed || 'message', n), 'order-' || n, case when n % 5 = 0 then pg_temp.made(w.seed || 'trace', n / 10) end,
       pg_temp.made(w.seed || 'partition', s.number),
       case when (1 + s.number % w.queues) % 3 = 0 and n % 2 = 0 then w.sealed[1 + n % cardinality(w.sealed)]::jsonb
            else jsonb_build_object('number', n, 'text', repeat(md5(n::text), 1 + (n % 3)::integer), 'list', jsonb_build_array(n, null, 'ü"\')) end,
       timestamptz '2024-01-03' + make_interval(secs => (n / 3) * 0.01), (1 + s.number % w.queues) % 3 = 0 and n % 2 = 0
  from wanted w cross join generate_series(1, w.messages) n
  join spread s on s.place = 1 + pg_temp.chance('message', n, (select count(*) from spread)::integer);

create temporary table placed as
select m.partition_id, m.id, m.created_at, row_number() over (partition by m.partition_id order by m.created_at, m.id) as place,
       count(*) over (partition by m.partition_id) as count
  from queen.messages m;
create index on placed (partition_id, place);
analyze placed;

-- Where each group is in each partition: kind 0 was never there, 1 is at the beginning, 2 and 4 somewhere, 3 at the end; 4 has a lease.
create temporary table progress as
select p.id as partition_id, p.queue_id, g.number, case when g.number = 1 then '__QUEUE_MODE__' else 'group-' || g.number end as name,
       pg_temp.chance(p.id::text || w.seed, g.number, 5) as kind, pg_temp.chance(p.id::text || w.seed, 100 + g.number, 4) as lease,
       coalesce(c.count, 0) as count,
       case pg_temp.chance(p.id::text || w.seed, g.number, 5) when 3 then coalesce(c.count, 0)
            else coalesce(c.count, 0) * pg_temp.chance(p.id::text || w.seed, 200 + g.number, 100) / 100 end as finished
  from wanted w
 cross join queen.partitions p
 cross join generate_series(1, w.groups) g(number)
  left join (select partition_id, max(count) as count from placed group by 1) c on c.partition_id = p.id;
