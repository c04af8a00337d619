-- Where the server keeps its data; null unless the caller may know.
select case when pg_has_role('pg_read_all_settings', 'member') then current_setting('data_directory', true) end as path
