-- Accepts a dedup id once per instance: changes no row on a repeat.
insert into mailbox_dedup (instance, dedup_id) values (:instance, :dedup_id) on conflict do nothing
