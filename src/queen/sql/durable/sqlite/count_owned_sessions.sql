-- Live sessions of an owner.
select count(*) from sessions where owner = :owner and locked_until > :now
