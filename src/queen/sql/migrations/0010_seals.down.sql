drop table queen.sink_seals;
