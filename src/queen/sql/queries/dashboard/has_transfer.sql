-- Whether a move from an earlier schema was begun in this database.
select to_regclass('queen_transfer.reports') is not null as there
