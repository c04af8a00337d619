-- Whether every partition has a cursor row of the group, also those that were being made in open transactions when it came.
alter table queen.subscriptions add column settled boolean not null default true;

comment on column queen.subscriptions.settled is
    'false: a partition that was being made when the group was registered may have no cursor row of it yet (queen.settle_group)';
