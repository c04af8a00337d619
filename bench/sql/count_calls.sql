-- What the server of bench/instructions.py is told, a line at a time: get warm, then make the calls.
call bare.{procedure}({warm}, {size}, {lanes}, {run});
call bare.{procedure}({times}, {size}, {lanes}, {run});
