-- Every message below this pos is committed.
select queen.advance_horizon()
