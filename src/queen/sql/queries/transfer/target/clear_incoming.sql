-- What arrived has its place.
truncate incoming_messages, incoming_dead_letters, incoming_traces, incoming_groups
