-- Takes everything back. The schema itself goes with the migrator's own table.

drop table queen_durable.kv_delta;
drop table queen_durable.kv_store;
drop table queen_durable.history;
drop table queen_durable.executions;
drop table queen_durable.instances;
drop table queen_durable.sessions;
drop table queen_durable.work_items;
drop table queen_durable.mailbox_dedup;
drop table queen_durable.mailbox_dead_letters;
drop table queen_durable.mailbox_messages;
drop table queen_durable.mailbox_keys;
