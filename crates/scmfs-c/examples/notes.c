// Keeps a note in a volume. Built with: cc notes.c -I crates/scmfs-c/include -L target/release -lscmfs
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "scmfs.h"

static int64_t check(int64_t result) {
    if (result >= 0) return result;
    fprintf(stderr, "%s\n", scmfs_last_error());
    exit(1);
}

int main(int argc, char **argv) {
    const char *region = argc > 1 ? argv[1] : "notes.scmfs";
    scmfs_volume *volume;
    int opened = scmfs_volume_open(region, 0, &volume);
    if (opened == -ENOENT) {
        check(scmfs_volume_create(region, 16 << 20, NULL));
        opened = scmfs_volume_open(region, 0, &volume);
    }
    check(opened);

    // All of the new note or all of the old one, whenever the process is killed.
    scmfs_file *file;
    check(scmfs_open(volume, "new", SCMFS_READ | SCMFS_WRITE | SCMFS_CREATE | SCMFS_TRUNCATE, 0600, &file));
    check(scmfs_pwrite(file, "buy milk\n", 9, 0));
    check(scmfs_rename(volume, "new", "note"));

    char text[80];
    int64_t bytes = check(scmfs_pread(file, text, sizeof text, 0));
    printf("%.*s", (int)bytes, text);
    check(scmfs_close(&file));

    scmfs_directory *root;
    scmfs_entry entry;
    check(scmfs_opendir(volume, "/", &root));
    while (check(scmfs_readdir(root, &entry)) == 1) printf("/%s\n", entry.name);
    check(scmfs_closedir(&root));
    check(scmfs_volume_close(&volume));
    return 0;
}
