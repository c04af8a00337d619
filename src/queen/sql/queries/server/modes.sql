-- Both maintenance modes; no row means off.
select coalesce((select (s.value -> 'push')::boolean from queen.settings s where s.key = 'maintenance'), false) as push,
       coalesce((select (s.value -> 'pop')::boolean from queen.settings s where s.key = 'maintenance'), false) as pop
