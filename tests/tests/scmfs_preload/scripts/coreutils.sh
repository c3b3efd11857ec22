set -e
seq 1 60000 > n; sort -R --random-source=n n > r; sort -n -o r r; cmp n r && echo same
split -b 50000 n part-; cat part-* | cmp - n && echo whole; tac n | tail -c 1000 | sha256sum
tail -c +100000 n | head -c 50000 | wc; wc n; shuf --random-source=n n | sort -n | uniq | wc -l; cksum n part-*
