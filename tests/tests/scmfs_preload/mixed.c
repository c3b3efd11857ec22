/* One of several processes on the same files: does what it is told on standard input, and says what came of it. The
** arguments are the files. A command is 40 bytes, an answer is a number (an errno if it is negative), and as many bytes
** as it says if the command reads. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILES = 8, ROOM = 1 << 20, PAGE = 4096 };

struct command {
  uint32_t what, file;
  uint64_t at, bytes, other;
  uint32_t fill, unused;
};

static char room[ROOM];
static const char *names[FILES];
static int both[FILES], ends[FILES], scratch = -1;

/* What a write with this number puts at an offset: it depends on the place, so that bytes at the wrong one show. */
static void fill(char *to, uint64_t at, uint64_t bytes, uint32_t number) {
  for (uint64_t i = 0; i < bytes; i++) to[i] = 1 + (number * 37 + (at + i) * 11 + (at + i) / 256 * 7) % 255;
}

static void open_anew(int file) {
  if (both[file] > 0) close(both[file]), close(ends[file]);
  both[file] = open(names[file], O_RDWR);
  ends[file] = open(names[file], O_WRONLY | O_APPEND);
  if (both[file] < 0 || ends[file] < 0) perror(names[file]), exit(1);
}

static int64_t result(int64_t value) { return value < 0 ? -errno : value; }

/* By the open file's own offset, which moves as far as the call says. */
static int64_t moving(int fd, int writes, uint64_t at, uint64_t bytes) {
  if (lseek(fd, at, SEEK_SET) < 0) return -errno;
  int64_t moved = writes ? write(fd, room, bytes) : read(fd, room, bytes);
  if (moved < 0) return -errno;
  return lseek(fd, 0, SEEK_CUR) == (off_t)at + moved ? moved : -EPROTO;
}

/* To or from a mapping of the pages around. 0: it cannot be mapped. */
static int64_t by_mapping(int fd, int stores, int syncs, const struct command *c) {
  uint64_t from = c->at / PAGE * PAGE, bytes = c->at - from + c->bytes;
  char *at = mmap(0, bytes, stores ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, from);
  if (at == MAP_FAILED) return errno == ENODEV ? 0 : -errno;
  if (stores)
    fill(at + (c->at - from), c->at, c->bytes, c->fill);
  else
    memcpy(room, at + (c->at - from), c->bytes);
  if (syncs && msync(at, bytes, MS_SYNC)) return -errno;
  return munmap(at, bytes) ? -errno : (int64_t)c->bytes;
}

static int64_t sent(int fd, uint64_t at, uint64_t bytes) {
  off_t from = at;
  int64_t moved, all = 0;
  if (ftruncate(scratch, 0) || lseek(scratch, 0, SEEK_SET)) return -errno;
  while ((moved = sendfile(scratch, fd, &from, bytes - all)) > 0) all += moved;
  return moved < 0 ? -errno : result(pread(scratch, room, all, 0));
}

/* Until all is copied, or the file ends. */
static int64_t copied(int from, int to, const struct command *c) {
  off_t at = c->at, other = c->other;
  int64_t moved, all = 0;
  while ((moved = copy_file_range(from, &at, to, &other, c->bytes - all, 0)) > 0) all += moved;
  return moved < 0 ? -errno : all;
}

static int64_t by_stream(int file, const struct command *c) {
  FILE *stream = fopen(names[file], "r");
  if (!stream || fseek(stream, c->at, SEEK_SET)) return -errno;
  int64_t bytes = fread(room, 1, c->bytes, stream);
  return fclose(stream) ? -errno : bytes;
}

static int64_t act(const struct command *c) {
  int file = c->file % FILES, fd = both[file];
  struct iovec half[2] = {{room, c->bytes / 2}, {room + c->bytes / 2, c->bytes - c->bytes / 2}};
  struct stat found;
  switch (c->what) {
    case 0: return result(pread(fd, room, c->bytes, c->at));
    case 1: return moving(fd, 0, c->at, c->bytes);
    case 2: return result(preadv(fd, half, 2, c->at));
    case 3: return by_mapping(fd, 0, 0, c);
    case 4: return sent(fd, c->at, c->bytes);
    case 5: return by_stream(file, c);
    case 6: fill(room, c->at, c->bytes, c->fill); return result(pwrite(fd, room, c->bytes, c->at));
    case 7: fill(room, c->at, c->bytes, c->fill); return moving(fd, 1, c->at, c->bytes);
    case 8: fill(room, c->at, c->bytes, c->fill); return result(pwritev(fd, half, 2, c->at));
    case 9: fill(room, c->at, c->bytes, c->fill); return result(write(ends[file], room, c->bytes));
    case 10: return by_mapping(fd, 1, 0, c);
    case 11: return by_mapping(fd, 1, 1, c);
    case 12: return result(ftruncate(fd, c->at));
    case 13: return result(fallocate(fd, c->fill, c->at, c->bytes));
    case 14: return copied(fd, both[c->other % FILES], &(struct command){.at = c->at, .bytes = c->bytes, .other = c->fill});
    case 15: return fstat(fd, &found) ? -errno : found.st_size;
    case 16: return result(fsync(fd));
    case 17: return result(fdatasync(fd));
    case 18: return -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    case 19: open_anew(file); return 0;
  }
  return -EINVAL;
}

static void whole(int writes, void *place, size_t bytes) {
  for (char *at = place; bytes;) {
    ssize_t moved = writes ? write(1, at, bytes) : read(0, at, bytes);
    if (moved == 0 && !writes) exit(0);
    if (moved < 0 && errno != EINTR) exit(1);
    if (moved > 0) at += moved, bytes -= moved;
  }
}

int main(int count, char **arguments) {
  struct command command;
  scratch = memfd_create("scratch", 0);
  for (int file = 0; file + 1 < count && file < FILES; file++) {
    names[file] = arguments[file + 1];
    open_anew(file);
  }
  for (;;) {
    whole(0, &command, sizeof command);
    if (command.bytes > ROOM) return 1;
    int64_t answer = act(&command);
    whole(1, &answer, sizeof answer);
    if (command.what < 6 && answer > 0) whole(1, room, answer);
  }
}
