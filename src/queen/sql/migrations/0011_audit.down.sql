drop table queen.audit;
