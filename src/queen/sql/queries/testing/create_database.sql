-- The statement that makes a database like another.
select format('create database %I template %I strategy file_copy', $1::text, $2::text)
