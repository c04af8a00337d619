-- Forgets code that no worker has announced since :before.
delete from handlers where seen_at < :before
