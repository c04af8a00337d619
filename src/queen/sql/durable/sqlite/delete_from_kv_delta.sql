-- Deletes the rows of instances in a json list.
delete from kv_delta where instance in (select value from json_each(:instances))
