-- The fourth word of what df said, in bytes.
select (regexp_split_to_array(line, '\s+'))[4]::bigint * 1024 from free_space
