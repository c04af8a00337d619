-- Which schema names without one mean here.
select current_schema()
