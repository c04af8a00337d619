-- Ends a work item inside the transaction of its step; whether its lock was held.
select finished.held
from queen_durable.ack_work_items(
    array[$1::text], $2::queen_durable.message_row[], array[]::queen_durable.push_row[], $3, $4, $5, false) as finished
