-- Pushes that do not announce themselves to the commit horizon: what the promise of it costs shows beside them.
create or replace function queen.announce() returns void language plpgsql volatile as $$ begin end $$
