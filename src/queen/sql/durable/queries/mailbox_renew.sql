-- Extends a lock; see functions/mailbox_renew.sql.
select queen_durable.mailbox_renew($1, $2, $3)
