-- These partitions are copied: from now on only their changes are followed.
update queen_transfer.progress set copied = true where former_id = any ($1::uuid[])
