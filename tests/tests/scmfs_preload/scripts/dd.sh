set -e
dd if=/dev/urandom of=noise bs=64k count=20 status=none; rm noise
yes pocketstone | head -c 3000000 > a; cp a b
for i in 1 5 9 40 3; do yes $i | head -c 40960 | dd of=b bs=512 seek=$((i * 100)) conv=notrunc status=none; done
dd if=b bs=333 skip=77 count=4000 status=none | sha256sum; cmp a b || true; dd if=b of=c bs=4k status=none; cmp b c
