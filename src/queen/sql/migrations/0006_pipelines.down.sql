alter table queen.queues drop column archive;
drop table queen.archive_positions, queen.pipeline_schedules, queen.rollups, queen.pipeline_results, queen.pipeline_runs;
