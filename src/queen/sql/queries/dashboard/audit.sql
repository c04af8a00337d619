-- The newest acts, of one queue ($1) and target ($2) or of all; before $4 (keyset).
select a.id, a.at, a.subject, a.act, a.queue, a.target, a.text, a.detail::text as detail
  from queen.audit a
 where ($1::text is null or a.queue = $1) and ($2::text is null or a.target = $2) and ($4::bigint is null or a.id < $4)
 order by a.id desc limit $3
