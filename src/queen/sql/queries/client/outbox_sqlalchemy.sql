-- Stores one message in the caller's own transaction.
select queen.push(:queue, :partition, cast(cast(:payload as text) as jsonb), cast(:transaction_id as text),
                  cast(cast(:trace_id as text) as uuid), cast(cast(:deliver_at as text) as timestamptz),
                  cast(cast(:parent_id as text) as uuid)) as id
