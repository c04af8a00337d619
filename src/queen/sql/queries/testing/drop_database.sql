-- The statement that drops a database, whoever is connected to it.
select format('drop database if exists %I with (force)', $1::text)
