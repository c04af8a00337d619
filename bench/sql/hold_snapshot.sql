-- An idle transaction that holds back clean-up: its snapshot must keep every version that is dead by now.
select count(*) from queen.partition_consumers
