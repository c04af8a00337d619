-- Stores one message of any queue.
insert into mailbox_messages (queue, routing_key, kind, name, body, order_at, visible_at)
values (:queue, :routing_key, :kind, :name, :body, :visible_at, :visible_at)
