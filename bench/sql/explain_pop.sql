-- The pages one pop of a batch of two touches.
explain (analyze, buffers, timing off, format json)
select * from queen.pop_lanes($1::text, $2::text, array[2], array[1], array[$3::uuid])
