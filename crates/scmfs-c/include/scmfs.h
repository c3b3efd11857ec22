// SCMFS: files in storage class memory, in process: without a mount and without privileges. A volume is a region of
// memory: a file of an ordinary file system or a tmpfs, a file on a DAX file system, or /dev/dax. The guarantees are
// those of docs/scmfs.md, which also says what a loss of power does to which region. Link with -lscmfs.
//
// This file is generated from the comments in crates/scmfs-c/src.
//
// RESULTS. A function that returns int returns 0 if it succeeded; one that returns int64_t returns a number of bytes,
// which is never negative. Both return a negative errno if they failed: -ENOENT, say. The numbers are those of Linux.
// scmfs_last_error() has a message with causes and, often, what to do. A call that fails changes nothing, unless its
// description says otherwise. -EINVAL: a pointer is NULL that must not be, a length is greater than that of any object,
// flags are unknown. -EIO: the volume is damaged, or the medium failed.
//
// DURABLE ON RETURN means that what a call did survives everything that the region survives: the death of the process
// (kill -9) on any region, and a loss of power on persistent memory. It needs no scmfs_sync().
//
// THREADS. Volumes and files can be used by any number of threads at once; a directory by one at a time. Nothing else
// may use a handle while it is closed, or afterwards. After fork(2) only the parent may use handles.
//
// POINTERS. Texts end with a zero byte, and are bytes of any encoding unless their description says otherwise. Data
// must be as long as the length that is given with it, and no other thread may change it during the call. Handles must
// come from this library and must not be closed. No function keeps a pointer when it returns. A closing function takes
// the address of the variable with the handle, and sets it to NULL.
//
// DEFECTS. If the library panics, the call returns -EIO. From then on the volume refuses every call with -EIO, and
// scmfs_volume_close() abandons it without storing anything; opening it again recovers it.
//
// USERS. Permissions are stored and not checked; new files belong to user and group 0.

#ifndef SCMFS_H
#define SCMFS_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface. It changes when programs have to be compiled anew.
#define SCMFS_ABI 1

// scmfs_open(): the file can be read.
#define SCMFS_READ 1

// scmfs_open(): the file can be changed.
#define SCMFS_WRITE 2

// scmfs_open(): a missing file is created; requires SCMFS_WRITE.
#define SCMFS_CREATE 4

// scmfs_open(): the file is created, and it is an error if the name exists; requires SCMFS_WRITE.
#define SCMFS_CREATE_NEW 8

// scmfs_open(): the file is truncated to no bytes; requires SCMFS_WRITE.
#define SCMFS_TRUNCATE 16

// scmfs_volume_open(): nothing is changed. A volume that was not closed cleanly is refused.
#define SCMFS_READ_ONLY 256

// scmfs_volume_open(): a thread of its own collects garbage when space runs low; without, calls that find no space do.
#define SCMFS_BACKGROUND 512

// scmfs_volume_open(): a declaration that the memory behind the region outlives a loss of power (batteries, say). Not
// needed for DAX. If it is wrong, a loss of power destroys the volume.
#define SCMFS_PERSISTENT 1024

// scmfs_create_options: an existing file that is not empty, or a device, is overwritten.
#define SCMFS_OVERWRITE 4096

// scmfs_create_options: every small page of contents has a checksum; reading a damaged one fails with -EIO.
#define SCMFS_CHECKSUMS 8192

// scmfs_create_options: files never move to huge pages.
#define SCMFS_THRESHOLD_NEVER UINT64_MAX

// scmfs_file_batch: the size is as the writes leave it.
#define SCMFS_KEEP_SIZE UINT64_MAX

// The entries of a directory as they were when it was opened.
typedef struct scmfs_directory scmfs_directory;

// An open file.
typedef struct scmfs_file scmfs_file;

// An open volume.
typedef struct scmfs_volume scmfs_volume;

// Options of a new volume. All zero bytes are the defaults.
typedef struct {
    // SCMFS_OVERWRITE, SCMFS_CHECKSUMS, or both.
    uint32_t flags;
    // Inodes to begin with; 0: one for each 16 KiB. More are made on demand.
    uint32_t inodes;
    // How far the volume may ever be grown, in bytes; 0: 16 times its size.
    uint64_t max_bytes;
    // Size of the zone of small pages in bytes; 0: an eighth of the space. It grows on demand.
    uint64_t small_bytes;
    // A file moves to huge pages when it would grow beyond so many bytes; 0: 128 KiB.
    uint64_t threshold_bytes;
    // A name of at most 32 bytes, UTF-8; NULL: none.
    const char *label;
    // Zero.
    uint64_t reserved[4];
} scmfs_create_options;

// Attributes of a file, directory or symbolic link. Times are nanoseconds since 1970, UTC.
typedef struct {
    // Size in bytes.
    uint64_t size;
    // Space taken in bytes, preallocated space included.
    uint64_t allocated;
    // Last read; kept as with the mount option relatime.
    int64_t atime_ns;
    // Last change of the contents.
    int64_t mtime_ns;
    // Last change of the attributes.
    int64_t ctime_ns;
    // Creation.
    int64_t btime_ns;
    // Inode number.
    uint32_t inode;
    // How often this inode number has been used.
    uint32_t generation;
    // Type and permissions as in st_mode: S_ISDIR(mode) and the like work.
    uint32_t mode;
    // Hard links.
    uint32_t links;
    // Owner.
    uint32_t uid;
    // Group.
    uint32_t gid;
    // Device number of a device.
    uint32_t rdev;
    // Zero.
    uint32_t reserved;
} scmfs_attributes;

// One write of a batch.
typedef struct {
    // Where in the file, in bytes.
    uint64_t offset;
    // What to write there; may be NULL if length is 0.
    const void *data;
    // How many bytes.
    size_t length;
} scmfs_write;

// What a batch does to one file.
typedef struct {
    // The file, open with SCMFS_WRITE.
    const scmfs_file *file;
    // The writes; where they overlap, the last one counts. May be NULL if count is 0.
    const scmfs_write *writes;
    // How many writes.
    size_t count;
    // The size of the file afterwards in bytes, or SCMFS_KEEP_SIZE.
    uint64_t size;
} scmfs_file_batch;

// An entry of a directory.
typedef struct {
    // The name, valid until the directory is closed.
    const char *name;
    // The inode number.
    uint32_t inode;
    // The type as in st_mode, without permissions.
    uint32_t mode;
} scmfs_entry;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface that the library was built with. A program that loads the library at run time compares
// it with SCMFS_ABI before it calls anything else.
uint32_t scmfs_abi(void);

// The version of the library, such as "0.1.0".
const char *scmfs_version(void);

// What the last call of this thread that failed has to say, on one line: the function, the kind of error, its causes
// and, if there is one, a hint. For example:
//
//     scmfs_volume_open: Refused: cannot open /v: No such file or directory (os error 2)
//
// The text is for people, and may change. It is valid until the next call of this function in the same thread. Empty
// if no call has failed yet; never NULL. Calls that succeed leave it as it is.
const char *scmfs_last_error(void);

// Creates an empty volume in a file of "bytes" bytes, all of them allocated, or in a memory device (/dev/dax...; 0:
// all of it). An existing file must be empty, unless the options say SCMFS_OVERWRITE. "options" may be NULL.
//
// Returns 0 or a negative errno: what the operating system says about the file, or -EIO if the file has contents or is
// in use, or if the sizes contradict each other. A file that is made before the call fails may stay behind.
//
// After a crash during the call the file is no volume, and scmfs_volume_open() says so. To be sure that a file is
// a volume, create it under another name and rename it.
int scmfs_volume_create(const char *region, uint64_t bytes, const scmfs_create_options *options);

// Opens a volume, and recovers it first if it was not closed. The file is locked: until it is closed, no other
// process, and nothing else in this one, can open it. "flags" are SCMFS_READ_ONLY, SCMFS_BACKGROUND and
// SCMFS_PERSISTENT, or 0.
//
// Returns 0 and the volume in "*volume", or a negative errno and NULL there: what the operating system says about the
// file, or -EIO if it is in use, damaged, or no volume.
//
// A crash during recovery does no harm: the next one begins anew.
int scmfs_volume_open(const char *region, uint32_t flags, scmfs_volume **volume);

// Creates a volume of "bytes" bytes in memory of this process and opens it, for tests and for data that need not
// outlive the process. The memory is returned when the volume and all its files are closed. "options" may be NULL.
//
// Returns 0 and the volume in "*volume", or a negative errno and NULL there.
//
// Nothing survives the process.
int scmfs_volume_in_memory(uint64_t bytes, const scmfs_create_options *options, scmfs_volume **volume);

// Stores what is only in memory, marks the volume as clean, unlocks its file, and sets "*volume" to NULL. No other
// call on the volume may be in progress or follow. NULL, and a pointer to NULL, are allowed: closing the same
// variable twice does nothing the second time.
//
// Files that are still open can be read, and keep the file of the volume locked until they are closed; changing them
// fails with -EROFS. Open directories stay as they are.
//
// Returns 0 or a negative errno if the medium fails; the handle is gone in both cases.
//
// A process that ends without this call loses nothing but timestamps: the volume is recovered when it is opened next.
int scmfs_volume_close(scmfs_volume **volume);

// Makes everything durable, as sync(2): timestamps, too, and on an ordinary file system the whole region is written
// back.
//
// Returns 0 or a negative errno.
//
// It is needed for timestamps, and for regions on ordinary file systems that must survive a loss of power. Without it
// every completed operation survives the death of the process anyway.
int scmfs_volume_sync(const scmfs_volume *volume);

// Opens a file, or creates it. "flags" are SCMFS_READ, SCMFS_WRITE, SCMFS_CREATE, SCMFS_CREATE_NEW and SCMFS_TRUNCATE;
// "mode" is a new file's permissions, such as 0644, which this interface stores but does not check. Paths are bytes in
// any encoding, names separated by "/", from the root directory with or without a leading "/"; symbolic links are
// followed.
//
// Returns 0 and the file in "*file", or a negative errno and NULL there: -ENOENT, -EEXIST, -EISDIR, -ENOTDIR, -ELOOP,
// -ENAMETOOLONG, -ENOSPC, -EROFS; -EINVAL for flags that contradict each other.
//
// After a crash a file is created with its name or not at all. Truncating an old one is a step of its own: all or
// nothing, too.
int scmfs_open(const scmfs_volume *volume, const char *path, uint32_t flags, uint32_t mode, scmfs_file **file);

// Closes a file and sets "*file" to NULL. No other call on it may be in progress or follow. NULL, and a pointer to
// NULL, are allowed: closing the same variable twice does nothing the second time.
//
// Returns 0, or a negative errno if something is wrong with the library; the handle is gone in both cases.
//
// A file without a name is deleted when it is closed for the last time; after a crash it is gone, too.
int scmfs_close(scmfs_file **file);

// Reads up to "length" bytes at an offset in bytes. A reader sees all of a write or none of it.
//
// Returns the number of bytes, less than "length" only at the end of the file and 0 behind it, or a negative errno:
// -EBADF if the file is not open for reading, -EIO for damage, in which case nothing is read.
int64_t scmfs_pread(const scmfs_file *file, void *into, size_t length, uint64_t offset);

// Writes at an offset in bytes, all of it or nothing; a gap behind the end of the file reads as zeros.
//
// Returns "length", or a negative errno: -EBADF if the file is not open for writing, -ENOSPC, -EFBIG, -EROFS, -EPERM
// if the file is protected.
//
// Durable on return. After a crash during the call: bytes within the old size are old and new ones in any mix; if the
// file grows, it has the new size and all new bytes, or the old size. Of a single write of more than 85 GiB, a prefix.
int64_t scmfs_pwrite(const scmfs_file *file, const void *from, size_t length, uint64_t offset);

// Writes at the end of the file, also among several threads that do. "*offset" becomes the place in bytes that was
// written to; "offset" may be NULL.
//
// Returns "length", or a negative errno as scmfs_pwrite().
//
// Durable on return. After a crash during the call: the new size and all new bytes, or the old size.
int64_t scmfs_append(const scmfs_file *file, const void *from, size_t length, uint64_t *offset);

// Writes at an offset in bytes, at most scmfs_atomic_max() bytes.
//
// Returns "length", or a negative errno as scmfs_pwrite(); -EFBIG also for more bytes than that.
//
// Durable on return. After a crash during the call: all of it or nothing.
int64_t scmfs_write_atomic(const scmfs_file *file, const void *from, size_t length, uint64_t offset);

// What scmfs_write_atomic() takes at most, in bytes: 1 MiB on a volume of 64 MiB or more.
//
// Returns it, or a negative errno.
int64_t scmfs_atomic_max(const scmfs_file *file);

// Cuts the file to a size in bytes, or extends it with zeros.
//
// Returns 0 or a negative errno as scmfs_pwrite().
//
// Durable on return. After a crash during the call: all or nothing.
int scmfs_truncate(const scmfs_file *file, uint64_t size);

// Makes the file durable, as fsync(2): its timestamps, too, and on an ordinary file system the whole region is written
// back.
//
// Returns 0 or a negative errno if the medium fails.
//
// See scmfs_volume_sync() for when it is needed.
int scmfs_sync(const scmfs_file *file);

// The attributes of an open file.
//
// Returns 0 or a negative errno.
int scmfs_fstat(const scmfs_file *file, scmfs_attributes *attributes);

// Writes to several files, several times each, and sets their sizes. A file may be given once. On failure nothing has
// changed.
//
// Returns 0 or a negative errno: -EFBIG beyond scmfs_batch_max(), -EINVAL for a file that is given twice or belongs to
// another volume and for a write beyond the given size, -EBADF for a file that is not open for writing, -ENOSPC.
//
// Durable on return. After a crash during the call: all of it or nothing.
int scmfs_write_batch(const scmfs_volume *volume, const scmfs_file_batch *batches, size_t count);

// What scmfs_write_batch() takes at most, in bytes: the data, 144 bytes for each file, and up to 32 for each piece of
// a write. 1.3 MiB on a volume of 64 MiB or more.
//
// Returns it, or a negative errno.
int64_t scmfs_batch_max(const scmfs_volume *volume);

// Creates a directory, with the permissions 0755.
//
// Returns 0 or a negative errno: -EEXIST, -ENOENT, -ENOTDIR, -ENAMETOOLONG, -ENOSPC, -EROFS.
//
// Durable on return. After a crash during the call: all or nothing.
int scmfs_mkdir(const scmfs_volume *volume, const char *path);

// Removes an empty directory.
//
// Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ENOTEMPTY, -EROFS; never -ENOSPC.
//
// Durable on return. After a crash during the call: all or nothing.
int scmfs_rmdir(const scmfs_volume *volume, const char *path);

// Removes a name that is not a directory's. The file is deleted with its last name, or when it is closed after that.
//
// Returns 0 or a negative errno: -ENOENT, -EISDIR, -ENOTDIR, -EROFS; never -ENOSPC.
//
// Durable on return. After a crash during the call: all or nothing.
int scmfs_unlink(const scmfs_volume *volume, const char *path);

// Renames a file, directory or symbolic link; an existing file or empty directory at "to" is replaced.
//
// Returns 0 or a negative errno as rename(2): -ENOENT, -ENOTEMPTY, -EISDIR, -ENOTDIR, -ENOSPC, -EROFS; -EINVAL if a
// directory would move into itself; -EBUSY if a path ends with "." or "..", or is the root.
//
// Durable on return. After a crash during the call: all or nothing; "to" names the old or the new file at any time.
int scmfs_rename(const scmfs_volume *volume, const char *from, const char *to);

// Gives the file "existing" the further name "path". A symbolic link at the end of "existing" is not followed.
//
// Returns 0 or a negative errno: -EEXIST, -ENOENT, -EPERM for a directory, -EMLINK, -ENOSPC, -EROFS.
//
// Durable on return. After a crash during the call: all or nothing.
int scmfs_link(const scmfs_volume *volume, const char *existing, const char *path);

// Creates the symbolic link "path" with a target of 1 to 4095 bytes, which need not exist.
//
// Returns 0 or a negative errno: -EEXIST, -ENOENT (also for an empty target), -ENAMETOOLONG, -ENOSPC, -EROFS.
//
// Durable on return. After a crash during the call: all or nothing.
int scmfs_symlink(const scmfs_volume *volume, const char *target, const char *path);

// Reads the target of a symbolic link, and ends it with a zero byte, unlike readlink(2). "room" bytes are there for
// both; 4096 are always enough.
//
// Returns the length of the target in bytes without the zero, or a negative errno: -ERANGE if it does not fit,
// -EINVAL if this is no symbolic link, -ENOENT, -ENOTDIR.
int64_t scmfs_readlink(const scmfs_volume *volume, const char *path, char *target, size_t room);

// The attributes of what a path leads to, through symbolic links.
//
// Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP.
int scmfs_stat(const scmfs_volume *volume, const char *path, scmfs_attributes *attributes);

// As scmfs_stat(), but a symbolic link at the end of the path is not followed.
//
// Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP.
int scmfs_lstat(const scmfs_volume *volume, const char *path, scmfs_attributes *attributes);

// Sets the permissions, such as 0600, of what a path leads to. Calls in process do not check them; a mount does.
//
// Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -EROFS, -EPERM.
//
// Durable on return. After a crash during the call: all or nothing.
int scmfs_chmod(const scmfs_volume *volume, const char *path, uint32_t mode);

// Reads all names of a directory, without "." and "..", in no order. They are kept in memory: the directory and even
// the volume may change or be closed before they are looked at. A name that is added or removed during the call may or
// may not be among them.
//
// Returns 0 and the directory in "*directory", or a negative errno and NULL there: -ENOENT, -ENOTDIR, -ELOOP.
int scmfs_opendir(const scmfs_volume *volume, const char *path, scmfs_directory **directory);

// The next entry of a directory. One thread at a time may use a directory.
//
// Returns 1 and fills "*entry", 0 at the end, or a negative errno.
int scmfs_readdir(scmfs_directory *directory, scmfs_entry *entry);

// Closes a directory and sets "*directory" to NULL. NULL, and a pointer to NULL, are allowed.
//
// Returns 0.
int scmfs_closedir(scmfs_directory **directory);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SCMFS_H */
