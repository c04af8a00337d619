-- Analyses that read what is new: what each has read, and what a day came to.

alter table queen.rollups add column computed_at timestamptz not null default '-infinity';

comment on column queen.rollups.computed_at is 'when the run that wrote it began';

create table queen.pipeline_state (
    lake  uuid not null,
    name  text not null,
    value jsonb not null,
    primary key (lake, name)
);

comment on table queen.pipeline_state is 'how far an analysis has read a lake, and what it must remember of that';

-- One day of a queue (or of all, under an empty name): sums and counts add up over days, the rest is kept as it is.
create table queen.pipeline_days (
    lake     uuid not null,
    pipeline text not null,
    queue    text not null,
    day      date not null,
    kind     text not null,
    key      text not null,
    value    jsonb not null,
    primary key (lake, pipeline, kind, queue, day, key)
);

create index dead_letters_by_redrive on queen.dead_letter_queue (redriven_at) where redriven_at is not null;
