alter table queen.subscriptions drop column settled;
