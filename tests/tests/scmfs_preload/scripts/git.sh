set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='1 Jan 2026 00:00 +0000' GIT_COMMITTER_DATE='1 Jan 2026 00:00 +0000'
git init -q -b main .; git config user.name n; git config user.email e; mkdir d
for i in $(seq 40); do seq $i $((i * 100)) > d/$i; git add .; git commit -q -m $i; done
git gc -q; git fsck --full --strict; git log --format=%H | sha256sum; git status --porcelain; git grep -c 99 | wc -l
