/* Threads write records by one descriptor's offset, each in a way of its own: the offset is the file's end all the time,
** whatever order they come in, so that each record is there once, whole, and nothing else. (sendfile(2) and
** copy_file_range(2) are not among them: the kernel itself does not keep an offset from others meanwhile.)
**
** offsets FILE WAY: what else happens at the same time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* One thread writes many at once, which takes long enough for others to come in between. */
enum { THREADS = 5, RECORDS = 4000, BATCH = 8192, BATCHES = 60, BYTES = 64, OTHERS = 50, PER_COPY = 100, LONGEST_S = 300 };

static int fd;
static volatile int done;
static const char *way;

static void fail(const char *what) {
  perror(what);
  _exit(1);
}

static void record(char *text, int thread, int n) {
  memset(text, '.', BYTES);
  text[snprintf(text, BYTES, "%d %07d ", thread, n)] = '.';
  text[BYTES - 1] = '\n';
}

static void write_at_end(const char *text, int thread, int n) {
  struct iovec parts[2] = {{(void *)text, 10}, {(void *)(text + 10), BYTES - 10}};
  ssize_t moved;
  switch (thread) {
  case 1:
    if (lseek(fd, 0, SEEK_END) < 0) fail("lseek");
    moved = write(fd, text, BYTES);
    break;
  case 2:
    moved = writev(fd, parts, 2);
    break;
  case 3:
    moved = dprintf(fd, "%.*s", BYTES, text);
    break;
  default:
    moved = n % 2 ? pwritev2(fd, parts, 2, -1, 0) : syscall(SYS_write, fd, text, BYTES);
  }
  if (moved != BYTES) fail("a record");
}

static void *write_batches(void *argument) {
  int thread = (int)(intptr_t)argument;
  char *text = malloc(BATCH * BYTES);
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int n = 0; n < BATCH; n++) record(text + n * BYTES, thread, batch * BATCH + n);
    if (write(fd, text, BATCH * BYTES) != BATCH * BYTES) fail("a batch");
  }
  return 0;
}

static void *work(void *argument) {
  int thread = (int)(intptr_t)argument;
  char text[BYTES];
  for (int n = 0; n < RECORDS; n++) {
    /* While all are at it, there is always one in the kernel: others have to have a chance to be direct. */
    if (n % 64 == 0) usleep(200);
    record(text, thread, n);
    write_at_end(text, thread, n);
    if (n % 8 == thread) {
      char more[BYTES];
      if (read(fd, more, BYTES) < 0 || lseek(fd, 0, SEEK_CUR) < 0) fail("read");
    }
  }
  return 0;
}

static void by_child(int n) {
  char text[BYTES];
  record(text, THREADS, n);
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) _exit(lseek(fd, 0, SEEK_END) > 0 && write(fd, text, BYTES) == BYTES ? 0 : 1);
  int status;
  if (waitpid(child, &status, 0) != child || status) fail("a child");
}

static void by_copy(int n) {
  char text[BYTES];
  /* "far": to a number that is not watched. */
  int copy = *way == 'f' ? dup2(fd, 5000) : n % 3 == 0 ? dup(fd) : n % 3 == 1 ? fcntl(fd, F_DUPFD, 100) : dup2(fd, 200);
  if (copy < 0) fail("a copy");
  for (int i = 0; i < PER_COPY; i++) {
    record(text, THREADS, n * PER_COPY + i);
    if (lseek(copy, 0, SEEK_END) < 0 || write(copy, text, BYTES) != BYTES) fail("by a copy");
  }
  if (close(copy)) fail("close");
}

static void by_message(int n) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) fail("socketpair");
  char byte = 0, text[BYTES], place[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = place, .msg_controllen = sizeof place};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  int got;
  if (sendmsg(pair[0], &message, 0) != 1 || recvmsg(pair[1], &message, 0) != 1) fail("a message");
  memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
  record(text, THREADS, n);
  if (lseek(got, 0, SEEK_END) < 0 || write(got, text, BYTES) != BYTES || close(got) || close(pair[0]) || close(pair[1])) fail("what came");
}

/* Opens files, writes to them and closes them, as the numbers come: what is written to one is in no other one. */
static void *open_and_close(void *argument) {
  char name[64], text[BYTES], found[BYTES * 4];
  snprintf(name, sizeof name, "other-%d", (int)(intptr_t)argument);
  for (int n = 0; !done; n++) {
    int other = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (other < 0) fail("open");
    record(text, 9, n);
    for (int i = 0; i < 4; i++)
      if (write(other, text, BYTES) != BYTES) fail("write");
    if (pread(other, found, sizeof found, 0) != sizeof found) fail("what was written is not there");
    for (int i = 0; i < 4; i++)
      if (memcmp(found + i * BYTES, text, BYTES)) fail("another file's bytes");
    if (close(other)) fail("close");
  }
  return 0;
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  way = arguments[2];
  alarm(LONGEST_S);
  struct rlimit numbers;
  if (getrlimit(RLIMIT_NOFILE, &numbers)) fail("getrlimit");
  numbers.rlim_cur = numbers.rlim_max;
  if (numbers.rlim_max <= 5000 || setrlimit(RLIMIT_NOFILE, &numbers)) fail("so many numbers");
  char text[BYTES];
  int before = open("before", O_RDWR | O_CREAT | O_TRUNC, 0600);
  fd = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (before < 0 || fd < 0) fail("open");
  /* Until the process is trusted. */
  for (int n = 0; n < RECORDS; n++) {
    record(text, 9, n);
    if (write(before, text, BYTES) != BYTES) fail("write");
  }
  pthread_t threads[THREADS], others[2];
  for (intptr_t n = 0; n < THREADS; n++) pthread_create(&threads[n], 0, n ? work : write_batches, (void *)n);
  int closes = !strcmp(way, "closes");
  for (intptr_t n = 0; closes && n < 2; n++) pthread_create(&others[n], 0, open_and_close, (void *)n);
  int more = 0;
  void (*other)(int) = !strcmp(way, "fork")      ? by_child
                       : !strcmp(way, "dup")     ? by_copy
                       : !strcmp(way, "far")     ? by_copy
                       : !strcmp(way, "message") ? by_message
                                                 : 0;
  /* Not at once: calls are direct before. */
  if (other) usleep(3000);
  for (; other && more < OTHERS; more++) {
    other(more);
    usleep(500);
  }
  for (int n = 0; n < THREADS; n++) pthread_join(threads[n], 0);
  done = 1;
  for (int n = 0; closes && n < 2; n++) pthread_join(others[n], 0);
  printf("%d\n", (THREADS - 1) * RECORDS + BATCHES * BATCH + more * (other == by_copy ? PER_COPY : 1));
  return 0;
}
