set -e
cat > s.c << 'end'
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  char b[4096]; unsigned long sum = 0; int f = open("f", O_RDWR);
  for (int i = 0; i < 300; i++) {
    if (pread(f, b, 4096, i * 911) != 4096) return 1;
    for (int k = 0; k < 4096; k++) sum = sum * 31 + (unsigned char)b[k];
    memset(b, i, 100); if (pwrite(f, b, 100, i * 797) != 100) return 1;
  }
  printf("%lu\n", sum); return 0; }
end
cc -static -o s s.c; seq 1 60000 > f; ./s; for i in 1 2 3; do dd if=f bs=4k status=none | cksum; seq $i 20000 | dd of=f bs=512 seek=$i conv=notrunc status=none; ./s; done; rm s
