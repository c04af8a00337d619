-- The transfer enters the phase $1.
update queen_transfer.state
   set phase = $1, copied_at = case when $1 = 'copied' then coalesce(copied_at, clock_timestamp()) else copied_at end,
       cut_at = case when $1 = 'done' then coalesce(cut_at, clock_timestamp()) else cut_at end,
       returned_at = case when $1 = 'returned' then clock_timestamp() else returned_at end
