-- The queues of the target with the options that the earlier schemas have.
select coalesce(jsonb_agg(to_jsonb(q) - 'id' - 'max_deliveries' order by q.name), '[]')::text from queues q
