-- Copies messages held under a token to the dead letters. :letters is json pairs of message id and error.
insert into mailbox_dead_letters (id, queue, routing_key, body, attempts, error, dead_at)
select messages.id, messages.queue, messages.routing_key, messages.body, messages.attempts,
       json_extract(letters.value, '$[1]'), :now
from json_each(:letters) as letters
join mailbox_messages as messages on messages.id = json_extract(letters.value, '$[0]')
where messages.lock_token = :token
