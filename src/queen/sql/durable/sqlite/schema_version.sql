-- How many migrations the file has seen.
pragma user_version
