set -e
for mode in delete truncate persist wal memory; do for map in 0 10000000; do
sqlite3 $mode$map.db "pragma mmap_size=$map; pragma journal_mode=$mode; create table t(a integer primary key, b);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) insert into t select i, hex(i * 7919) from n;
update t set b = b || 'x' where a % 3 = 0; delete from t where a % 7 = 0; vacuum; pragma integrity_check;
select count(*), sum(length(b)) from t;"; done; done; rm *.db*
