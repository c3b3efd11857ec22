#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int in[2], out[2];
static FILE *stream;
static char filler[1 << 20];

static void clean(void *what) { printf("%s: cleaned up, ", (const char *)what); }

static void *reads(void *what) {
  char b;
  pthread_cleanup_push(clean, what);
  read(in[0], &b, 1);
  pthread_cleanup_pop(0);
  return NULL;
}

static void *writes(void *what) {
  pthread_cleanup_push(clean, what);
  for (;;) write(out[1], filler, sizeof filler);
  pthread_cleanup_pop(0);
  return NULL;
}

static void *waits(void *what) {
  char b[10];
  pthread_cleanup_push(clean, what);
  fread(b, 1, sizeof b, stream);
  pthread_cleanup_pop(0);
  return NULL;
}

static void *opens(void *what) {
  pthread_cleanup_push(clean, what);
  open("pipe with nobody at its other end", O_RDONLY);
  pthread_cleanup_pop(0);
  return NULL;
}

static void *sends(void *what) {
  int pair[2];
  struct iovec part = {filler, sizeof filler};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  pthread_cleanup_push(clean, what);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
    for (;;) sendmsg(pair[0], &message, 0);
  pthread_cleanup_pop(0);
  return NULL;
}

static int end(void *(*run)(void *), char *name) {
  pthread_t thread;
  void *result;
  if (pthread_create(&thread, NULL, run, name)) return 1;
  usleep(100000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  puts(result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
  return 0;
}

int main(void) {
  if (pipe(in) || pipe(out)) return 1;
  stream = fdopen(in[0], "r");
  mkfifo("pipe with nobody at its other end", 0600);
  return end(reads, "read") || end(writes, "write") || end(waits, "stdio") || end(opens, "open") || end(sends, "sendmsg");
}
