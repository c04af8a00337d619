-- What an error has in common with others is worked out once, when a message is given up, not whenever somebody looks.
alter table queen.dead_letter_queue add column error_kind text;

comment on column queen.dead_letter_queue.error_kind is 'queen.normalise_error(error_message); null where it was not worked out yet';
