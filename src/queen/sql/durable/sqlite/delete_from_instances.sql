-- Deletes the rows of instances in a json list.
delete from instances where instance in (select value from json_each(:instances))
