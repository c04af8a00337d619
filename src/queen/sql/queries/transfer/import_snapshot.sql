-- What another transaction of the same server sees; the name of its snapshot takes the place of the word.
set transaction snapshot 'SNAPSHOT'
