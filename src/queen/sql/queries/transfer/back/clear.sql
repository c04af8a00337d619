-- What arrived is written back.
truncate back_partitions, back_groups, back_messages, back_states, back_dead_letters, back_firsts, back_kept, back_gone
