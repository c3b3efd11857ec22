// Two threads append records to one file, and read them while they do.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "scmfs.h"

enum { RECORDS = 10000, BYTES = 16 };

static scmfs_volume *volume;
static scmfs_file *file;

static int64_t check(int64_t result) {
    if (result >= 0) return result;
    fprintf(stderr, "%s\n", scmfs_last_error());
    exit(1);
}

static void *append(void *name) {
    char record[BYTES], found[BYTES];
    for (int n = 0; n < RECORDS; n++) {
        uint64_t offset;
        snprintf(record, sizeof record, "%s %d", (const char *)name, n);
        check(scmfs_append(file, record, sizeof record, &offset));
        check(scmfs_pread(file, found, sizeof found, offset));
        if (offset % BYTES != 0 || strcmp(record, found) != 0) {
            fprintf(stderr, "%s is not %s\n", found, record);
            exit(1);
        }
        // A failure in one thread is not told in the other.
        scmfs_attributes attributes;
        if (n == 0 && scmfs_stat(volume, name, &attributes) == 0) exit(1);
    }
    return NULL;
}

int main(void) {
    check(scmfs_volume_in_memory(16 << 20, NULL, &volume));
    check(scmfs_open(volume, "log", SCMFS_READ | SCMFS_WRITE | SCMFS_CREATE_NEW, 0600, &file));
    pthread_t first, second;
    if (pthread_create(&first, NULL, append, "first") != 0) return 1;
    if (pthread_create(&second, NULL, append, "second") != 0) return 1;
    if (pthread_join(first, NULL) != 0 || pthread_join(second, NULL) != 0) return 1;
    if (strcmp(scmfs_last_error(), "") != 0) return 1;

    int next[2] = {0, 0};
    char record[BYTES];
    for (uint64_t at = 0; check(scmfs_pread(file, record, BYTES, at)) == BYTES; at += BYTES) {
        int second_has = strncmp(record, "second ", 7) == 0;
        if (atoi(strchr(record, ' ')) != next[second_has]++) return 1;
    }
    printf("%d records\n", next[0] + next[1]);
    check(scmfs_close(&file));
    check(scmfs_volume_close(&volume));
    return 0;
}
