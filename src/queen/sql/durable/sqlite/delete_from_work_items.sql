-- Deletes the rows of instances in a json list.
delete from work_items where instance in (select value from json_each(:instances))
