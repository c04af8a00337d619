-- What was removed in the target since the cutover goes from the source: fronts, and single messages.
delete from messages m
 using back_firsts b
  left join messages n on n.id = b.next_id
 where m.partition_id = b.former_id and (b.next_id is null or (m.created_at, m.id) < (n.created_at, n.id));
delete from messages m
 where m.partition_id in (select former_id from back_kept)
   and not exists (select from back_kept k where k.message_id = m.id);
