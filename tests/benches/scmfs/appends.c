// A program as they are: a file that grows by 4 KiB at a time to 16 MiB, deleted, and the same once more. Says what an
// append of the second took, in ns on average.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, APPENDS = 4096 };

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int count, char **arguments) {
  static char page[PAGE];
  double mean = 0;
  memset(page, 7, sizeof page);
  for (int round = 0; round < 2; round++) {
    int fd = open(arguments[count - 1], O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (fd < 0) return 1;
    double start = now_ns();
    for (int i = 0; i < APPENDS; i++)
      if (write(fd, page, PAGE) != PAGE) return 2;
    mean = (now_ns() - start) / APPENDS;
    if (close(fd) != 0 || unlink(arguments[count - 1]) != 0) return 3;
  }
  printf("%f\n", mean);
  return 0;
}
