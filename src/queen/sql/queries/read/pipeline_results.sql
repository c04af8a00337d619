-- The results of a run by kind and key; $2: of one kind only. $4 and $5: after this place (keyset).
select x.kind, x.key, x.value
  from queen.pipeline_results x
 where x.run_id = $1 and ($2::text is null or x.kind = $2) and ($4::text is null or (x.kind, x.key) > ($4, $5::text))
 order by x.kind, x.key limit $3
