-- A queue, empty.
select pgmq.create('bench')
