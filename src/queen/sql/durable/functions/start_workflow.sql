-- Promises: asks for an instance in the caller's transaction: it exists if that commits, beside the caller's own rows. p_arguments is
--   a JSON list. False when the dedup id was accepted before for this instance.
-- Locks: the row of the instance's key.
create or replace function queen_durable.start_workflow(
    p_instance text, p_name text, p_arguments jsonb default '[]', p_version text default null,
    p_delay_ms bigint default 0, p_dedup_id text default null, p_trace_id text default null
) returns boolean
language plpgsql volatile as $$
declare
    v_input text;
    v_body  jsonb;
begin
    if coalesce(length(p_instance), 0) not between 1 and 1024 or coalesce(length(p_name), 0) not between 1 and 1024 then
        raise exception 'instance and name must have 1 to 1024 characters' using errcode = '22023';
    elsif p_arguments is null or jsonb_typeof(p_arguments) <> 'array' then
        raise exception 'arguments must be a JSON list, got %', coalesce(jsonb_typeof(p_arguments), 'null')
            using errcode = '22023';
    end if;
    v_input := case jsonb_array_length(p_arguments)
        when 0 then 'null' when 1 then (p_arguments -> 0)::text else p_arguments::text
    end;
    v_body := jsonb_strip_nulls(jsonb_build_object(
        'kind', 'StartMessage', 'instance', p_instance, 'name', p_name, 'input', v_input,
        'version', p_version, 'trace_id', p_trace_id));
    return (
        select sent.accepted
        from queen_durable.enqueue_messages(
            array[(0, p_instance, 'StartMessage', null, p_name || coalesce('@' || p_version, ''),
                   convert_to(v_body::text, 'UTF8'), 0)::queen_durable.message_row],
            array[p_delay_ms], array[p_dedup_id], null, 'queen_durable', 'sql o ') as sent
    );
end $$;
