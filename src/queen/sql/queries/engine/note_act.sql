-- Write one act into the audit log.
insert into queen.audit (subject, act, queue, target, text, detail) values ($1, $2, $3, $4, $5, $6::jsonb)
