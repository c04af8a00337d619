-- Keeps how far a locked item is, for whoever gets it next.
update work_items set body = :body where lock_token = :token
