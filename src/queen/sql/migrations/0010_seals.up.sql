-- Which staged rows a batch is made of, from before its first part is stored until the last one is: an attempt that comes later may have
-- staged them in another order.
create table queen.sink_seals (
    sink_id bigint not null references queen.sinks (id) on delete cascade,
    batch   bigint not null,
    stages  bigint[] not null,
    parts   bigint[] not null,
    primary key (sink_id, batch)
);

comment on column queen.sink_seals.parts is 'numbers of the parts in the stage table; the place of a part here is its bucket in queen.sink_batches';
