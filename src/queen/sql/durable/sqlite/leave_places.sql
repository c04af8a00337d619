-- Frees the places that an execution kept.
delete from places where instance = :instance and kept
