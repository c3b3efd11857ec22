// One way by which a descriptor comes to mean another file, or its open file to be used otherwise: `ways NAME A B`. A
// begins with an 'A', B with a 'B', and C, which has as many bytes as A, is empty for each way. Says what is read.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *self, *a, *b, *c;
static char **environment;

// The versions that programs of the time before 2.15 call.
int old_spawn(pid_t *, const char *, void *, void *, char **, char **);
int old_spawnp(pid_t *, const char *, void *, void *, char **, char **);
__asm__(".symver old_spawn, posix_spawn@GLIBC_2.2.5");
__asm__(".symver old_spawnp, posix_spawnp@GLIBC_2.2.5");

static int opened(const char *path) {
  int fd = open(path, O_RDWR);
  if (fd < 0) perror(path), exit(9);
  return fd;
}

static char first(int fd) {
  char byte = '?';
  return pread(fd, &byte, 1, 0) == 1 ? byte : '!';
}

// Until a process that can be trusted is.
static void warm(int fd) {
  char page[4096];
  for (int i = 0; i < 2200; i++)
    if (pread(fd, page, sizeof page, 4096) != sizeof page) perror("pread"), exit(8);
}

static void warm_stores(int fd) {
  for (int i = 0; i < 2200; i++)
    if (pwrite(fd, "stored", 6, 4096) != 6) perror("pwrite"), exit(8);
}

static void say(const char *what, char byte) { printf("%s %c\n", what, byte); }

static int expect(int fd, int same) {
  if (fd != same) printf("number %d, not %d\n", fd, same), exit(7);
  return fd;
}

// The number is free: B gets it.
static void reopen(int fd) {
  say("other", first(expect(opened(b), fd)));
  warm(fd);
  say("other", first(fd));
}

static void ended(pid_t pid) {
  int status;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) perror("child"), exit(6);
  if (status) printf("status %x\n", status);
}

__attribute__((noinline)) static long raw_close(int fd) {
  long result;
#ifdef RAW
  __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_close), "D"((long)fd) : "rcx", "r11", "memory");
#else
  result = -1;
#endif
  return result;
}

static void *looping(void *path) {
  for (int round = 0; round < 3000; round++) {
    int fd = opened(path);
    for (int i = 0; i < 14; i++)
      if (first(fd) != (path == a ? 'A' : 'B')) return "wrong";
    if (close(fd)) return "close";
  }
  return "right";
}

static void *with_own_table(void *fd) {
  static char said[2];
  if (unshare(CLONE_FILES)) return "!";
  close(*(int *)fd);
  expect(opened(b), *(int *)fd);
  for (int i = 0; i < 20; i++) said[0] = first(*(int *)fd);
  return said;
}

static int child_without_files(void *fd) {
  close(*(int *)fd);
  if (opened(b) != *(int *)fd) return 1;
  for (int i = 0; i < 20; i++)
    if (first(*(int *)fd) != 'B') return 2;
  return 0;
}

// What O_APPEND does to a pwrite of one who does not know of it: the end of the file gets it.
static void append_unknown(int fd) {
  off_t before = lseek(fd, 0, SEEK_END);
  if (pwrite(fd, "XXXXXX", 6, 4096) != 6) perror("pwrite"), exit(5);
  char now[7] = "";
  pread(fd, now, 6, 4096);
  printf("at the place: %s, longer by %ld\n", now, (long)(lseek(fd, 0, SEEK_END) - before));
}

static void set_append(int fd) {
  if (fcntl(fd, F_SETFL, O_APPEND)) perror("F_SETFL"), exit(4);
}

static void send_file(int through, int fd, int several) {
  char room[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
  struct iovec part = {&byte, 1};
  struct mmsghdr message = {0};
  message.msg_hdr.msg_iov = &part, message.msg_hdr.msg_iovlen = 1;
  message.msg_hdr.msg_control = room, message.msg_hdr.msg_controllen = sizeof room;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message.msg_hdr);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if ((several ? sendmmsg(through, &message, 1, 0) : sendmsg(through, &message.msg_hdr, 0)) != 1)
    perror("sendmsg"), exit(3);
}

static int received(int through) {
  char room[CMSG_SPACE(sizeof(int))], byte;
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  int fd;
  if (recvmsg(through, &message, 0) != 1) perror("recvmsg"), exit(3);
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

// This program, to do something with a descriptor that it inherits.
static char **with(char *way, int fd) {
  static char number[16], *values[7];
  sprintf(number, "%d", fd);
  memcpy(values, (char *[]){self, way, a, b, c, number, NULL}, sizeof values);
  return values;
}

static void *memory(int prot) { return mmap(0, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

// mov $3, %eax; syscall; ret
static void *close_at(void *place) {
  static const unsigned char code[] = {0xB8, 3, 0, 0, 0, 0x0F, 5, 0xC3};
  if (place == MAP_FAILED) perror("memory"), exit(2);
  return memcpy(place, code, sizeof code);
}

int main(int count, char **arguments, char **all) {
  char *way = arguments[1];
  environment = all;
  self = arguments[0], a = arguments[2], b = arguments[3], c = arguments[4];
#define WAY(name) if (!strcmp(way, name))
  WAY("inherited") {
    int fd = atoi(arguments[5]);
    warm(fd);
    say("inherited", first(fd));
    return 0;
  }
  WAY("appends") return set_append(atoi(arguments[5])), 0;
  if (!strncmp(way, "message", 7)) {
    // Before the file is opened: it is not shared by this.
    int pair[2], done;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pid_t child = fork();
    if (!child) {
      set_append(received(pair[1]));
      return write(pair[1], "x", 1) != 1;
    }
    int fd = opened(c);
    warm_stores(fd);
    send_file(pair[0], fd, !strcmp(way, "messages"));
    if (read(pair[0], &done, 1) != 1) return 1;
    append_unknown(fd);
    ended(child);
    return 0;
  }
  int fd = opened(!strncmp(way, "append", 6) ? c : a);
  if (!strncmp(way, "append", 6))
    warm_stores(fd);
  else
    warm(fd);
  WAY("nothing") say("first", first(fd));
  WAY("close") close(fd), reopen(fd);
  WAY("dup2") dup2(opened(b), fd), say("other", first(fd)), warm(fd), say("other", first(fd));
  WAY("dup3") dup3(opened(b), fd, O_CLOEXEC), say("other", first(fd)), warm(fd), say("other", first(fd));
  WAY("close_range") close_range(fd, fd, 0), reopen(fd);
  WAY("closefrom") closefrom(fd), reopen(fd);
  WAY("mq_close") mq_close(fd), reopen(fd);
  WAY("fclose") fclose(fdopen(fd, "r")), reopen(fd);
  WAY("freopen") {
    FILE *stream = fdopen(fd, "r");
    say("other", first(expect(fileno(freopen(b, "r", stream)), fd)));
    warm(fd), say("other", first(fd));
  }
  WAY("libc") {
    // As ctypes and the like find it.
    int (*real)(int) = (int (*)(int))dlsym(dlopen("libc.so.6", RTLD_NOW), "close");
    real(fd), reopen(fd);
  }
  WAY("number") syscall(SYS_close, fd), reopen(fd);
  WAY("raw") raw_close(fd), reopen(fd);
  WAY("object") {
    void *object = dlopen(arguments[5], RTLD_NOW);
    long (*object_close)(int) = (long (*)(int))dlsym(object, "object_close");
    object_close(fd), reopen(fd);
  }
  WAY("object that goes") {
    void *object = dlopen(arguments[5], RTLD_NOW);
    long (*object_close)(int) = (long (*)(int))dlsym(object, "object_close");
    object_close(fd);
    expect(opened(b), fd);
    dlclose(object);
    // By another number, so that nothing is asked of this one until there is trust again.
    int other = opened(a);
    warm(other);
    say("other", first(fd));
  }
  long (*closes)(int) = NULL;
  WAY("code by mprotect") {
    closes = close_at(memory(PROT_READ | PROT_WRITE));
    mprotect(closes, 4096, PROT_READ | PROT_EXEC);
  }
  WAY("code by pkey_mprotect") {
    closes = close_at(memory(PROT_READ | PROT_WRITE));
    pkey_mprotect(closes, 4096, PROT_READ | PROT_EXEC, pkey_alloc(0, 0));
  }
  WAY("code by mmap") closes = close_at(memory(PROT_READ | PROT_WRITE | PROT_EXEC));
  WAY("code by personality") personality(READ_IMPLIES_EXEC), closes = close_at(memory(PROT_READ | PROT_WRITE));
  WAY("code by shmat") {
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0700);
    closes = close_at(shmat(id, NULL, SHM_EXEC));
    shmctl(id, IPC_RMID, NULL);
  }
  if (closes) closes(fd), reopen(fd);
  WAY("vfork") {
    pid_t child = vfork();
    if (!child) {
      close(fd);
      if (open(b, O_RDONLY) != fd) _exit(1);
      for (int i = 0; i < 20; i++)
        if (first(fd) != 'B') _exit(2);
      _exit(0);
    }
    ended(child);
    say("first", first(fd));
  }
  WAY("spawn") {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, fd);
    posix_spawn_file_actions_addopen(&actions, fd, b, O_RDONLY, 0);
    pid_t child;
    if (posix_spawn(&child, self, &actions, NULL, with("inherited", fd), environment)) return 1;
    ended(child);
    say("first", first(fd));
  }
  WAY("copies") {
    int copies[] = {dup(fd), fcntl(fd, F_DUPFD, 100), fcntl(fd, F_DUPFD_CLOEXEC, 200), dup2(fd, 300), dup3(fd, 400, 0)};
    close(fd);
    for (int i = 0; i < 5; i++) warm(copies[i]), say("copy", first(copies[i]));
    dup2(opened(b), copies[3]);
    say("other", first(copies[3]));
  }
  WAY("standard input") dup2(opened(b), 0), execve(self, with("inherited", 0), environment);
  WAY("exec") execve(self, with("inherited", dup2(opened(b), fd)), environment);
  WAY("fork") {
    // Both write at the offset that they share.
    int shared = open(c, O_RDWR);
    char record[512];
    memset(record, 'p', sizeof record);
    pid_t child = fork();
    if (!child) memset(record, 'c', sizeof record);
    for (int i = 0; i < 100; i++)
      if (write(shared, record, sizeof record) != sizeof record) return 1;
    if (!child) return 0;
    ended(child);
    int counts[256] = {0};
    for (int i = 0; i < 200; i++) {
      pread(shared, record, sizeof record, i * 512);
      for (int k = 1; k < 512; k++) counts[0] += record[k] != record[0];
      counts[(unsigned char)record[0]]++;
    }
    printf("parent %d, child %d, mixed %d, offset %ld\n", counts['p'], counts['c'], counts[0],
           (long)lseek(shared, 0, SEEK_CUR));
  }
  WAY("append") set_append(fd), append_unknown(fd);
  WAY("append by another number") set_append(dup(fd)), append_unknown(fd);
  WAY("append by a stream") fdopen(fd, "a"), append_unknown(fd);
  WAY("append by a child") {
    pid_t child = fork();
    if (!child) set_append(fd), _exit(0);
    ended(child), append_unknown(fd);
  }
  WAY("append by a child of vfork") {
    pid_t child = vfork();
    if (!child) set_append(fd), _exit(0);
    ended(child), append_unknown(fd);
  }
  WAY("append by a program") {
    pid_t child = vfork();
    if (!child) execve(self, with("appends", fd), environment), _exit(1);
    ended(child), append_unknown(fd);
  }
  if (!strncmp(way, "append by posix_spawn", 21)) {
    pid_t child;
    char **values = with("appends", fd);
    int failed = -1;
    WAY("append by posix_spawn") failed = posix_spawn(&child, self, NULL, NULL, values, environment);
    WAY("append by posix_spawnp") failed = posix_spawnp(&child, self, NULL, NULL, values, environment);
    WAY("append by posix_spawn of old") failed = old_spawn(&child, self, NULL, NULL, values, environment);
    WAY("append by posix_spawnp of old") failed = old_spawnp(&child, self, NULL, NULL, values, environment);
    if (failed) return 1;
    ended(child), append_unknown(fd);
  }
  WAY("append by system") {
    char line[4096];
    snprintf(line, sizeof line, "'%s' appends '%s' '%s' '%s' %d", self, a, b, c, fd);
    if (system(line)) return 1;
    append_unknown(fd);
  }
  WAY("openat") {
    int other = openat(AT_FDCWD, b, O_RDONLY);
    warm(other);
    say("other", first(other));
  }
  WAY("own table") {
    pthread_t thread;
    void *said;
    pthread_create(&thread, NULL, with_own_table, &fd);
    pthread_join(thread, &said);
    say("other", *(char *)said);
    say("first", first(fd));
  }
  WAY("clone") {
    char *stack = malloc(1 << 16);
    ended(clone(child_without_files, stack + (1 << 16), CLONE_VM | SIGCHLD, &fd));
    say("first", first(fd));
  }
  WAY("threads") {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, looping, i % 2 ? a : b);
    for (int i = 0; i < 4; i++) {
      void *said;
      pthread_join(threads[i], &said);
      puts(said);
    }
    warm(fd);
  }
  return 0;
}
