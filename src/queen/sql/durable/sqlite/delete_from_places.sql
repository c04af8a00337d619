-- Deletes the rows of instances in a json list.
delete from places where instance in (select value from json_each(:instances))
