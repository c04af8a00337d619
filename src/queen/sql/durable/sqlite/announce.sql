-- Notes that a live worker has this code.
insert into handlers (queue, name, seen_at) values (:queue, :name, :now)
on conflict (queue, name) do update set seen_at = max(seen_at, excluded.seen_at)
