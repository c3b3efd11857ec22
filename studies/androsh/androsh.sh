# The scripts of AndroSH, the benchmark of the SCMFS thesis (Cao, Texas A&M, 2012), which prints none of them: records,
# rounds and the tree are those of the workload `androsh`. The commands are BusyBox's where there is one.
#
#     sh androsh.sh SCRIPT SCALE [RECORD_KIB | MEDIA_MIB | TREE]
#
# Works in the current folder; every size is divided by SCALE. What is copied, and what is read before it is written, is
# made by the script itself, and is part of its time: compare file systems by it, not scripts.
set -eu

script=$1 scale=$2 option=${3:-}
seed=${POCKETSTONE_SEED:-1}
if command -v busybox > /dev/null; then
    for name in awk cat cp dd gzip head mkdir rm seq tar; do
        eval "$name() { busybox $name \"\$@\"; }"
    done
fi

# Sources are beside the file system under test, in memory.
beside=/dev/shm
[ -d "$beside" ] || beside=/tmp
source=$beside/androsh-$$
mkdir "$source"
trap 'rm -r "$source"' EXIT

# make FILE KIB
make() {
    head -c "$(($2 * 1024))" /dev/urandom > "$1"
}

# The numbers below $1 in random order.
shuffled() {
    awk -v n="$1" -v seed="$seed" 'BEGIN {
        srand(seed)
        for (i = 0; i < n; i++) order[i] = i
        for (i = n - 1; i > 0; i--) { j = int(rand() * (i + 1)); t = order[i]; order[i] = order[j]; order[j] = t }
        for (i = 0; i < n; i++) print order[i]
    }'
}

# $1 random numbers from $2 to $3.
sizes() {
    awk -v n="$1" -v low="$2" -v high="$3" -v seed="$seed" 'BEGIN {
        srand(seed)
        for (i = 0; i < n; i++) print low + int(rand() * (high - low + 1))
    }'
}

# The folder of a file by its number, in a tree of 2 x 5 x 5 folders, or of 50 beside each other, or none.
folder() {
    case $1 in
        nested) echo "folder-$(($2 / 25 % 2))/folder-$(($2 / 5 % 5))/folder-$(($2 % 5))" ;;
        folders) echo "folder-$(($2 % 50))" ;;
        *) echo . ;;
    esac
}

quietly() {
    "$@" 2> "$source/said" || { cat "$source/said" >&2; exit 1; }
}

# A1 to A4: one file of 100 MiB.
record=$((${option:-64} * 1024))
records=0
case $script in
    sequential-* | random-*) records=$((100 * 1048576 / scale / record)) ;;
esac
write() {
    quietly dd if=/dev/zero of=file bs="$record" count="$records"
}

# U1 to U3: media of so many MiB.
media=0 number=0 rounds=0
case $script:$option in
    copy*:2 | compress-one:2) media=2 number=50 random_number=50 rounds=10 ;;
    copy*:6 | compress-one:6) media=6 number=16 random_number=17 rounds=5 ;;
    copy*:25 | compress-one:25) media=25 number=4 random_number=4 rounds=2 ;;
    copy*:100 | compress-one:100) media=100 number=1 random_number=2 rounds=1 ;;
    copy*:* | compress-one:*) echo "media are 2, 6, 25 or 100 MiB, not $option" >&2; exit 2 ;;
esac

case $script in
    sequential-write)
        for round in 1 2 3; do
            rm -f file
            write
        done
        ;;
    sequential-read)
        write
        for round in 1 2 3; do
            quietly dd if=file of=/dev/null bs="$record"
        done
        ;;
    random-write)
        write
        for n in $(shuffled "$records"); do
            quietly dd if=/dev/zero of=file bs="$record" count=1 seek="$n" conv=notrunc
        done
        ;;
    random-read)
        write
        for n in $(shuffled "$records"); do
            quietly dd if=file of=/dev/null bs="$record" count=1 skip="$n"
        done
        ;;
    read-tree)
        make "$source/file" 4
        for n in $(seq 0 49); do
            mkdir -p "$(folder "$option" "$n")"
            cp "$source/file" "$(folder "$option" "$n")/file-$n"
        done
        for round in 1 2 3 4 5 6 7 8 9 10; do
            for n in $(seq 0 49); do
                cat "$(folder "$option" "$n")/file-$n" > /dev/null
            done
        done
        ;;
    copy)
        make "$source/file" "$((media * 1024 / scale))"
        for n in $(seq "$number"); do
            cp "$source/file" "file-$n"
        done
        ;;
    copy-tree)
        n=0
        for kib in $(sizes "$random_number" 0 "$((media * 1024 / scale))"); do
            make "$source/file" "$kib"
            mkdir -p "$(folder nested "$n")"
            cp "$source/file" "$(folder nested "$n")/file-$n"
            n=$((n + 1))
        done
        ;;
    compress-one)
        make "$source/file" "$((media * 1024 / scale))"
        for round in $(seq "$rounds"); do
            cp "$source/file" file
            tar -cf - file | gzip -6 > archive.tar.gz
            rm file archive.tar.gz
        done
        ;;
    compress-many)
        n=0
        mkdir many
        for kib in $(sizes 50 4 6144); do
            make "$source/file" "$((kib / scale + 1))"
            cp "$source/file" "many/file-$n"
            n=$((n + 1))
        done
        tar -cf - many | gzip -6 > archive.tar.gz
        ;;
    *)
        echo "there is no script $script" >&2
        exit 2
        ;;
esac
