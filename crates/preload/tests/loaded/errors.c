#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* No name of the program's own: an argument that has one would mean this variable. */
#define SAY(what, call) do { errno = 0; long said_ = (call); printf("%s: %ld %d\n", what, said_, errno); } while (0)

int main(void) {
  char b[64] = "0123456789";
  int f = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600), d = open(".", O_RDONLY), p[2], n, r, w, path;
  if (pipe(p)) return 1;
  for (int round = 0; round < 30; round++) {
    SAY("write", write(f, b, 10));
    SAY("lseek", lseek(f, 3, SEEK_SET));
    SAY("read", read(f, b, 20));
    SAY("end", read(f, b, 20));
    SAY("read EBADF", read(-1, b, 1));
    SAY("write EBADF", write(1000000, b, 1));
    SAY("pread EBADF", pread(77, b, 1, 0));
    SAY("read null", read(f, NULL, 0));
    SAY("pread null", pread(f, NULL, 5, 0));
    SAY("pread bad", pread(f, (void *)1, 5, 0));
    SAY("pwrite bad", pwrite(f, (void *)0xfff000000000000UL, 5, 0));
    SAY("directory", read(d, b, 1));
    SAY("pipe", pread(p[0], b, 1, 0));
    SAY("negative", pread(f, b, 1, -1));
    SAY("negative write", pwrite(f, b, 1, -5));
    SAY("beyond", pread(f, b, 1, 1L << 40));
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    SAY("nonblocking", read(p[0], b, 1));
    SAY("to the pipe", write(p[1], "x", 1));
    SAY("from the pipe", read(p[0], b, 9));
    r = open("file", O_RDONLY); SAY("only to read", write(r, b, 1)); close(r);
    w = open("file", O_WRONLY); SAY("only to write", read(w, b, 1)); close(w);
    path = open("file", O_PATH); SAY("path", read(path, b, 1)); close(path);
    n = open("file", O_WRONLY | O_APPEND); SAY("append", pwrite(n, "end", 3, 0)); close(n);
    SAY("cut", ftruncate(f, 4)); SAY("start", lseek(f, 0, SEEK_SET));
  }
  struct rlimit limit = {1 << 20, 1 << 20};
  if (setrlimit(RLIMIT_FSIZE, &limit)) return 1;
  SAY("inside the limit", pwrite(f, b, 10, 0));
  SAY("up to the limit", pwrite(f, b, 10, (1 << 20) - 5));
  char path_of[64];
  sprintf(path_of, "/proc/self/fd/%d", f);
  SAY("by proc", access(path_of, F_OK));
  /* What was set before is left as it is when a call succeeds. */
  errno = 42;
  if (pread(f, b, 1, 0) != 1) return 1;
  printf("errno stays: %d\n", errno);
  return 0;
}
