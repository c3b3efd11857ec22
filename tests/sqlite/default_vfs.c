/* Linked into SQLite's own test program: makes the VFS of the extension that SCMFS_SQLITE names the default one, each
** time SQLite is initialised. Without SCMFS_SQLITE nothing changes. */
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"

int scmfs_as_default(const char *unused) {
  static sqlite3_vfs *vfs;
  const char *extension = getenv("SCMFS_SQLITE");
  (void)unused;
  if (!extension) return SQLITE_OK;
  if (!vfs) {
    sqlite3 *loader = 0;
    char *error = 0;
    int code = sqlite3_open(":memory:", &loader);
    if (code == SQLITE_OK) code = sqlite3_enable_load_extension(loader, 1);
    if (code == SQLITE_OK) code = sqlite3_load_extension(loader, extension, "sqlite3_extension_init", &error);
    if (code != SQLITE_OK) {
      /* A suite that went on without the VFS would pass. */
      fprintf(stderr, "%s cannot be loaded: %s\n", extension, error ? error : sqlite3_errstr(code));
      exit(70);
    }
    sqlite3_close(loader);
    vfs = sqlite3_vfs_find("scmfs");
  }
  return sqlite3_vfs_register(vfs, 1);
}
