-- All groups are settled.
delete from unsettled
