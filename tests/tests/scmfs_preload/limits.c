#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ulimit.h>
#include <unistd.h>

static int file;
static char page[4096];

/* Often enough to be direct. */
static long use(void) {
  long sum = 0;
  for (int i = 0; i < 60; i++) sum += pread(file, page, 100, i) + pwrite(file, page, 100, i);
  return sum;
}

/* A number of /proc/self/status, in kB. */
static long status(const char *name) {
  char line[200];
  long found = 0;
  FILE *from = fopen("/proc/self/status", "r");
  while (from && fgets(line, sizeof line, from))
    if (!strncmp(line, name, strlen(name))) found = atol(line + strlen(name));
  if (from) fclose(from);
  return found;
}

static void *thread(void *unused) { return (void *)use(); }

static volatile long handled;
static void handler(int signal) { handled = use(); }

int main(int count, char **words) {
  const char *what = words[1];
  file = open(words[2], O_RDWR);
  if (file < 0) return 1;
  if (!strcmp(what, "address space")) {
    struct rlimit limit = {(status("VmSize:") << 10) + (32 << 20), RLIM_INFINITY};
    printf("%ld\n", use());
    printf("limit %d\n", setrlimit(RLIMIT_AS, &limit));
    printf("memory %d\n", malloc(8 << 20) != NULL);
    printf("%ld\n", use());
  } else if (!strcmp(what, "locked")) {
    printf("%ld\n", use());
    printf("locked %d\n", mlockall(MCL_CURRENT));
    printf("little %d\n", status("VmLck:") < 32 << 10);
    printf("%ld\n", use());
  } else if (!strcmp(what, "locked in future")) {
    printf("locked %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
    printf("%ld\n", use());
    printf("little %d\n", status("VmLck:") < 32 << 10);
  } else if (!strcmp(what, "size")) {
    signal(SIGXFSZ, SIG_IGN);
    printf("%ld\n", use());
    printf("limit %ld, is %ld\n", ulimit(UL_SETFSIZE, 100), ulimit(UL_GETFSIZE));
    printf("at the limit %zd %d\n", pwrite(file, page, 100, 51200), errno);
    printf("below it %zd\n", pwrite(file, page, 200, 51100));
  } else if (!strcmp(what, "small stack")) {
    pthread_attr_t small;
    pthread_t one;
    void *sum;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32 << 10);
    if (pthread_create(&one, &small, thread, NULL) || pthread_join(one, &sum)) return 1;
    printf("%ld\n", (long)sum);
  } else if (!strcmp(what, "handler")) {
    /* What lies below the handler's stack is somebody's. */
    static char below[256 << 10], *stack = below + (240 << 10);
    stack_t its = {.ss_sp = stack, .ss_size = 16 << 10};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    long changed = 0;
    if (sigaltstack(&its, NULL) || sigaction(SIGUSR1, &action, NULL)) return 1;
    raise(SIGUSR1);
    for (char *at = below; at < stack; at++) changed += *at != 0;
    printf("%ld, changed %ld\n", handled, changed);
  } else if (!strcmp(what, "again")) {
    int left = atoi(words[3]);
    char next[20];
    use();
    sprintf(next, "%d", left - 1);
    if (left > 0) execl("/proc/self/exe", words[0], what, words[2], next, NULL);
    printf("done\n");
  }
  return 0;
}
