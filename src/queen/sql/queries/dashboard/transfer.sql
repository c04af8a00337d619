-- How far a move from an earlier schema is, and the newest comparison.
select s.version, s.phase, s.begun_at, s.copied_at, s.cut_at, s.returned_at, s.pause_ms, r.passed, r.made_at, r.report::text as report
  from queen_transfer.state s
  left join lateral (select x.* from queen_transfer.reports x order by x.id desc limit 1) r on true
