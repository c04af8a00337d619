-- A number that changes when another connection has committed.
pragma data_version
