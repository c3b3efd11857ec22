#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int f;
static volatile long handled;

static void handler(int signal) {
  char b[100];
  (void)signal;
  if (pread(f, b, sizeof b, 50) == sizeof b && pwrite(f, b, sizeof b, 50) == sizeof b) handled++;
}

int main(void) {
  char b[4096], c[4096];
  f = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  memset(b, 'b', sizeof b);
  for (int i = 0; i < 40; i++)
    if (write(f, b, sizeof b) != sizeof b) return 1;
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 50000 || handled < 20; i++) {
    if (pread(f, c, sizeof c, (i % 39) * 4096) != sizeof c || memcmp(b, c, sizeof c)) return 2;
    if (pwrite(f, b, sizeof b, (i % 39) * 4096) != sizeof b) return 3;
  }
  setitimer(ITIMER_REAL, &never, NULL);
  fflush(stdout);
  if (lseek(f, 100, SEEK_SET) != 100) return 4;
  pid_t child = fork();
  if (child == 0) _exit(read(f, c, 10) == 10 && lseek(f, 0, SEEK_CUR) == 110 ? 0 : 1);
  int status;
  if (waitpid(child, &status, 0) != child || lseek(f, 0, SEEK_CUR) != 110) return 5;
  printf("child %d\n", status);
  return 0;
}
