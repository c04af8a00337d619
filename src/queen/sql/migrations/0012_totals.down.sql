drop trigger correct_totals on queen.stats_totals;
drop function queen.correct_totals();
drop table queen.totals;
