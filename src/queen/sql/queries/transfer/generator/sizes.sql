-- What is to be made, and the helper tables from which everything else is made. $1 seed, $2 queues, $3 partitions, $4 messages, $5 groups,
-- $6 odd rows, $7 sealed payloads.
create temporary table wanted as
select $1::text as seed, $2::integer as queues, $3::integer as partitions, $4::bigint as messages, $5::integer as groups,
       $6::boolean as odd, $7::text[] as sealed
