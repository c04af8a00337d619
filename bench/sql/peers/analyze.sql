-- What autovacuum does a minute later: nobody is to be measured with the plans of an empty table.
analyze
