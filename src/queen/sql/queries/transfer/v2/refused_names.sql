-- Names that the new schema does not take.
select kind, name::text, reason
  from (select 'queue' as kind, name, case when octet_length(name) > 512 then 'longer than 512 bytes' when name = '' then 'empty' end as reason from queues
        union all
        select 'partition', name, case when octet_length(name) > 512 then 'longer than 512 bytes' end from partitions
        union all
        select 'group', consumer_group, case when octet_length(consumer_group) > 512 then 'longer than 512 bytes' when consumer_group = '' then 'empty' end
          from (select consumer_group from partition_cursors union select consumer_group from partition_leases union select name from consumer_groups
        union select consumer_group from messages_status where consumer_group = '') g(consumer_group)) n
 where reason is not null
 limit 20
