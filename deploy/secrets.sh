#!/bin/sh
# Write deploy/.env with secrets that nobody else has; what is there already is left alone.
set -eu
file="$(dirname "$0")/.env"
[ -e "$file" ] && { echo "$file is there already"; exit 0; }
umask 077
secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
printf 'POSTGRES_PASSWORD=%s\nQUEEN_JWT_SECRET=%s\n' "$(secret)" "$(secret)" > "$file"
echo "$file was written"
