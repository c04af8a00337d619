drop table queen.takeovers;
alter table queen.horizon drop column timeline;
