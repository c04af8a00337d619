-- Stores one message of any queue.
insert into mailbox_messages (queue, routing_key, kind, body, order_at, visible_at)
values (:queue, :routing_key, :kind, :body, :visible_at, :visible_at)
