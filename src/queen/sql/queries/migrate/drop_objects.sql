-- Drop the objects listed in the setting queen.obsolete_objects (a text array), in whatever order their
-- dependencies allow. Fails if something outside the list needs one of them: nothing cascades.
-- Locks: the objects dropped.
do $$
declare
    remaining text[] := current_setting('queen.obsolete_objects')::text[];
    failed text[];
    object text;
    reason text;
begin
    while cardinality(remaining) > 0 loop
        failed := '{}';
        foreach object in array remaining loop
            begin
                execute regexp_replace(object, '^(\S+) ', 'drop \1 if exists ');
            exception when dependent_objects_still_exist then
                get stacked diagnostics reason = pg_exception_detail;
                failed := failed || object;
            end;
        end loop;
        if cardinality(failed) = cardinality(remaining) then
            raise dependent_objects_still_exist
                using message = format('cannot drop %s', array_to_string(failed, ', ')), detail = reason;
        end if;
        remaining := failed;
    end loop;
end
$$
