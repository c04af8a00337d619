-- The queues of the source with all their options.
select coalesce(jsonb_agg(to_jsonb(q) order by q.name), '[]')::text from queues q
