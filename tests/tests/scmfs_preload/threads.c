/* Threads that map a file and unmap it in parts, a handler that does the same in the middle of it, and children that
** unmap what they inherit: nobody waits for ever, and what each thread counts in the file is all there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, CHILDREN = 100, PAGE = 4096, PAGES = 16, BYTES = PAGES * PAGE, LONGEST_S = 120 };

static int fd;
static char *kept;
static volatile int done;
static uint64_t counted[THREADS];

static void fail(const char *what) {
  perror(what);
  _exit(1);
}

static char *map(int thread) {
  /* The server listens to nobody who says nothing for 250 ms, as a thread may that is interrupted all the time. */
  for (int attempt = 0; attempt < 100; attempt++) {
    char *at = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)thread * BYTES);
    if (at != MAP_FAILED) return at;
    if (errno != ENODEV) break;
  }
  fail("mmap");
  return 0;
}

static void unmap(char *at, size_t bytes) {
  if (munmap(at, bytes)) fail("munmap");
}

static void *work(void *argument) {
  int thread = (int)(intptr_t)argument;
  while (!done) {
    char *at = map(thread);
    ++*(uint64_t *)at;
    if (msync(at, BYTES, MS_SYNC)) fail("msync");
    counted[thread]++;
    /* The middle, the end, the rest. */
    unmap(at + 4 * PAGE, 4 * PAGE);
    unmap(at + 8 * PAGE, 8 * PAGE);
    if (madvise(at, PAGE, MADV_REMOVE) == 0) fail("a page went");
    unmap(at, 4 * PAGE);
  }
  return 0;
}

static void handle(int signal) {
  (void)signal;
  char *at = map(THREADS);
  if (munmap(at, BYTES)) _exit(2);
}

static void *watch(void *unused) {
  for (time_t end = time(0) + LONGEST_S; time(0) < end;) sleep(1);
  static const char text[] = "somebody waits for ever\n";
  _exit(write(2, text, sizeof text - 1) > 0 ? 3 : 4);
  return unused;
}

int main(int count, char **arguments) {
  pthread_t threads[THREADS], watcher;
  struct itimerval often = {{0, 2000}, {0, 2000}};
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  fd = count == 2 ? open(arguments[1], O_RDWR) : -1;
  if (fd < 0) fail("open");
  for (int thread = 0; thread < THREADS; thread++)
    if (pwrite(fd, &(uint64_t){0}, 8, (off_t)thread * BYTES) != 8) fail("pwrite");
  kept = map(THREADS + 1);
  pthread_create(&watcher, 0, watch, 0);
  sigaction(SIGALRM, &action, 0);
  setitimer(ITIMER_REAL, &often, 0);
  for (intptr_t thread = 0; thread < THREADS; thread++) pthread_create(&threads[thread], 0, work, (void *)thread);
  for (int child = 0; child < CHILDREN; child++) {
    int status;
    pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (!pid) {
      if (msync(kept, BYTES, MS_SYNC)) _exit(5);
      if (munmap(kept + PAGE, PAGE) || madvise(kept, PAGE, MADV_REMOVE) == 0 || munmap(kept, BYTES)) _exit(6);
      _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0) continue;
    if (status) {
      fprintf(stderr, "a child ended with %x\n", status);
      return 1;
    }
  }
  done = 1;
  for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], 0);
  setitimer(ITIMER_REAL, &(struct itimerval){0}, 0);
  for (int thread = 0; thread < THREADS; thread++) {
    uint64_t found;
    if (pread(fd, &found, 8, (off_t)thread * BYTES) != 8) fail("pread");
    if (found != counted[thread]) {
      fprintf(stderr, "thread %d: %lu of %lu\n", thread, (unsigned long)found, (unsigned long)counted[thread]);
      return 1;
    }
  }
  printf("%d threads, %d children\n", THREADS, CHILDREN);
  return 0;
}
