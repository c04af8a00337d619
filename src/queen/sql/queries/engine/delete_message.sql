-- Removes one message.
select queen.delete_message($1, $2) as existed
