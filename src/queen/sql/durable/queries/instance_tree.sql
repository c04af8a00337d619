-- An instance and all its descendants, parents before children.
select queen_durable.family_of(array[$1])
