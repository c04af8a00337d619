drop index queen.dead_letters_by_redrive;
drop table queen.pipeline_days;
drop table queen.pipeline_state;
alter table queen.rollups drop column computed_at;
