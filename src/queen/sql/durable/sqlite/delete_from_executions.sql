-- Deletes the rows of instances in a json list.
delete from executions where instance in (select value from json_each(:instances))
