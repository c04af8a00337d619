-- Room for a second schema, to compare with.
create database plain
