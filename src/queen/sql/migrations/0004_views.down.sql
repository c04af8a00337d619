drop view queen.dead_letters_by_group;
drop view queen.cursor_progress;
drop view queen.partition_utilization;
drop view queen.stuck_partitions;
drop view queen.active_leases;
drop view queen.queue_depths;
