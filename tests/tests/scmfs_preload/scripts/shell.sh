set -e
exec 3<> f; for i in $(seq 200); do echo line $i >&3; done; exec 3>&-
(for i in $(seq 100); do echo one >> log; done) & (for i in $(seq 100); do echo two >> log; done) & wait
sort log | uniq -c; rm log; { read a; read b; echo "$a-$b"; head -n 1 >/dev/null; cat; } < f | tail -n 2
exec 4< f; for i in $(seq 20); do read -u 4 x; done; (read -u 4 y; echo child $y); read -u 4 z; echo parent $z
cat << here > h
some text
here
cat h; while read l; do :; done < f; echo ${#l}; echo done | tee -a f h | cat
