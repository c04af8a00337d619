-- Promises: from here to the end of the transaction, queen.advance_horizon knows that this transaction may still commit messages with
--   a pos above the value announced here. To be called before the transaction's first nextval on queen.message_pos.
-- Locks: one shared transaction-level advisory lock (class 'QUEE', low 32 bits of the announced value), once per transaction: the
--   setting that remembers it is local, so a rollback to a savepoint takes back both together.
create or replace function queen.announce() returns void
language plpgsql volatile as $$
begin
    if current_setting('queen.announced', true) = 'yes' then
        return;
    end if;
    perform pg_advisory_xact_lock_shared(
                1364542789, (coalesce(pg_sequence_last_value('queen.message_pos'), 0) & 4294967295)::bit(32)::integer),
            set_config('queen.announced', 'yes', true);
end $$;
