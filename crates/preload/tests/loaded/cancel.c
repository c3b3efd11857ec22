#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
  return end(reads, "read") || end(writes, "write") || end(waits, "stdio");
}
