set -e
seq 1 30000 > n; sed -i 's/7/seven/' n; sed -n '100,110p' n; awk '{s += length($0)} END {print s}' n
awk 'NR % 3 == 0' n > m; sed -i '1d;$d' m; md5sum n m
