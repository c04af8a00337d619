-- Groups whose places have changed.
select limit_group from unsettled
