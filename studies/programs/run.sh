#!/bin/sh
# Runs a benchmark of others once in the current folder, with a fixed amount of work: run.sh PROGRAM
set -eu

have() {
    command -v "$1" >/dev/null || PATH=$PATH:/usr/sbin command -v "$1" >/dev/null || {
        echo "$1 is not installed: as root, apt-get install $1"
        exit 1
    }
}

have "$1"
case $1 in
postmark)
    printf 'set location .\nset number 200\nset size 4096 65536\nset transactions 2000\nset seed 42\nrun\nquit\n' | postmark
    ;;
bonnie++)
    # Block writes, rewrites and reads of 64 MiB, seeks, and 8 Ki files created, looked at and deleted.
    PATH=$PATH:/usr/sbin bonnie++ -d . -s 64M -r 32 -n 8 -u "$(id -u)" -q -f
    ;;
fio)
    fio --name=records --rw=randrw --bs=4k --size=32m --ioengine=psync --fallocate=none --randseed=42 --minimal
    ;;
*)
    echo "$1 is none of postmark, bonnie++ and fio"
    exit 2
    ;;
esac
