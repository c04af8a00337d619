-- The kinds of results a run has, with how many there are of each.
select x.kind, count(*) as results from queen.pipeline_results x where x.run_id = $1 group by x.kind order by x.kind
