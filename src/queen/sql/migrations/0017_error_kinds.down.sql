alter table queen.dead_letter_queue drop column error_kind;
