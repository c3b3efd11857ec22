# What is above this line says where things are: `shards`, and the functions `import_cache`, `new_run` and `resumed_run`.
index=${1:-${SLURM_ARRAY_TASK_ID:-$((${JOB_COMPLETION_INDEX:--1} + 1))}}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/pocketstone-shard-XXXXXX") || exit 1
results=$scratch/results
run= ended= left=
trap '[ -n "$left" ] || rm -rf "$scratch"' EXIT
# What is told to end, ends its run first, which keeps what it has measured.
trap 'ended=1; [ -z "$run" ] || kill -TERM "$run"' TERM INT
import_cache || exit 1
# Where a shard is begun again while this is still at it, the newer one has it.
mkdir -p "$shards" || exit 1
owner=$(uname -n)-$$-$(date +%s)
echo "$owner" >"$shards/.owner-$index" || exit 1

# Which state the database is in; fails while it is being changed, when the journal is there.
state() {
    [ ! -e "$results/results.sqlite-journal" ] && head -c 100 "$results/results.sqlite" | sha256sum &&
        [ ! -e "$results/results.sqlite-journal" ]
}
# A copy of the database as it is at some moment, on this machine.
snapshot() {
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        before=$(state) && cp "$results/results.sqlite" "$scratch/snapshot" && after=$(state) &&
            [ "$after" = "$before" ] && return 0
        sleep 0.2
    done
    return 1
}
# Whether this still has the shard.
owns() {
    [ "$(cat "$shards/.owner-$index")" = "$owner" ]
}
# Waits until a database that is there has no journal, which would be played into the one that takes its place.
unjournalled() {
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        [ -e "$1-journal" ] || return 0
        sleep 0.2
    done
    echo "$1-journal is in the way: reading those results removes it, as pocketstone report $(dirname "$1") does" >&2
    return 1
}
# Copies a file under another name first: what is there is whole, or as it was.
place() {
    new=$shards/$index/.new-$owner
    mkdir -p "$(dirname "$2")" && cp "$1" "$new" && owns && unjournalled "$2" && mv "$new" "$2" && return 0
    rm -f "$new"
    return 1
}
# Copies the results to the folder that all machines see: a moment's database, after the files that belong to it. With
# `all` also those that are there and differ, which they do at the end alone.
keep() {
    [ -e "$results/results.sqlite" ] || return 0
    owns || return 1
    snapshot || return 1
    find "$results" -type f ! -name 'results.sqlite*' ! -name in-use ! -name '*.new' ! -name '.*' \
        >"$scratch/files" || return 1
    while read -r file; do
        kept=$shards/$index/${file#"$results/"}
        [ -z "$1" ] && [ -e "$kept" ] || cmp -s "$file" "$kept" || place "$file" "$kept" || return 1
    done <"$scratch/files"
    place "$scratch/snapshot" "$shards/$index/results.sqlite"
}

# In a session of its own, where there is a program for that: a signal to this script's group reaches it once.
apart=$(command -v setsid)
[ -z "$ended" ] || exit 143
if [ -e "$shards/$index/results.sqlite" ]; then
    cp -r "$shards/$index" "$results" || exit 1
    rm -f "$results"/.new-*
    resumed_run &
else
    new_run &
fi
run=$!
[ -z "$ended" ] || kill -TERM "$run"
# A machine that dies loses what it has measured since it last kept something.
(
    trap 'kill "$nap"; exit' TERM INT
    while kill -0 $$ && kill -0 "$run"; do
        sleep "${POCKETSTONE_KEEP_S:-60}" &
        nap=$!
        wait "$nap"
        kill -0 $$ && keep
    done
) </dev/null >/dev/null 2>&1 &
keeper=$!
wait "$run"
status=$?
# A signal ends the first wait.
while kill -0 "$run" 2>/dev/null; do
    wait "$run"
    status=$?
done
# From here on nothing is interrupted but by force.
trap '' TERM INT
kill "$keeper" 2>/dev/null
wait "$keeper"
if ! keep all; then
    left=1
    echo "cannot copy the results to $shards/$index: they are in $results on $(uname -n)" >&2
    exit 1
fi
[ ! -e "$shards/$index/results.sqlite" ] || echo "moved to $shards/$index: $results"
exit "$status"
