/* SPDX-License-Identifier: MIT
 *
 * ramfs.h - the file system that the model test believes in.
 *
 * As plain as can be: nodes in an array, a directory is a list of names, content is
 * one block of memory. A node's number here is its index; `ino` is what the disk
 * under test calls it. Functions return what the disk should: 0 or -errno.
 * Copies are cheap: content is shared until it is written.
 */
#ifndef DZ_TESTS_RAMFS_H
#define DZ_TESTS_RAMFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RAM_NODES = 400,
    RAM_NAMES = 64, /* in one directory */
    RAM_XATTRS = 4,
    RAM_ROOT = 1, /* 1..4 as on the disk */
};

struct ram_bytes {
    unsigned refs;
    size_t n;
    uint8_t p[];
};

struct ram_name {
    char name[24];
    int node;
};

struct ram_xattr {
    char name[24];
    struct ram_bytes *value;
};

struct ram_node {
    bool used;
    uint64_t ino;
    uint32_t mode, uid, gid, nlink, refs;
    uint64_t rdev;
    int64_t atime_ns, mtime_ns, ctime_ns;
    struct ram_bytes *data; /* content or target */
    int parent;             /* of a directory */
    int count;
    struct ram_name *names; /* RAM_NAMES of them, for a directory */
    struct ram_xattr xattr[RAM_XATTRS];
};

struct ram {
    struct ram_node node[RAM_NODES];
};

struct ram *ram_new(void);
struct ram *ram_copy(const struct ram *m); /* without references: what a crash leaves */
void ram_free(struct ram *m);

int ram_find(const struct ram *m, int dir, const char *name); /* the node, or -ENOENT */
int ram_create(struct ram *m, int dir, const char *name, uint32_t mode,
               const char *target);             /* node */
int ram_nameless(struct ram *m, uint32_t mode); /* a file with one reference: its node */
int ram_link(struct ram *m, int node, int dir, const char *name);
int ram_unlink(struct ram *m, int dir, const char *name);
int ram_rmdir(struct ram *m, int dir, const char *name);
int ram_rename(struct ram *m, int from, const char *old, int to, const char *new, unsigned flags);
void ram_unref(struct ram *m, int node);
void ram_remove_tree(struct ram *m, int dir, const char *name);
void ram_clear(struct ram *m, int dir);
uint8_t *ram_resize(struct ram *m, int node, size_t n); /* zeros where it grows; writable */
size_t ram_size(const struct ram_node *n);
int ram_walk(const struct ram *m, int dir, const char *path, int links); /* node or -errno */

/* May the call happen? What it would return, without doing it. */
int ram_can_create(const struct ram *m, int dir, const char *name);
int ram_can_unlink(const struct ram *m, int dir, const char *name);
int ram_can_rmdir(const struct ram *m, int dir, const char *name);
int ram_can_link(const struct ram *m, int node, int dir, const char *name);
int ram_can_rename(const struct ram *m, int from, const char *old, int to, const char *new,
                   unsigned flags);

#endif
