-- Deletes the rows of instances in a json list.
delete from mailbox_dedup where instance in (select value from json_each(:instances))
