/* SPDX-License-Identifier: MIT
 *
 * linux_sleep_int.h - the structs of docs/format/linux-state.md, for linux_sleep.c and
 * linux_inspect.c.
 */
#ifndef DZ_LINUX_LINUX_SLEEP_INT_H
#define DZ_LINUX_LINUX_SLEEP_INT_H

#include "linux/linux_sleep.h"
#include "stub/stub.h"

#include <string.h>

#define STATE_MAGIC "dozenat1"

enum chunk_tag {
    CHUNK_CPU = 1,
    CHUNK_COUNTERS,
    CHUNK_VDSO,
    CHUNK_PACKED,
    CHUNK_FILES,
    CHUNK_SPACES,
    CHUNK_GROUPS,
    CHUNK_THREADS,
    CHUNKS, /* one more than there are */
};
struct state_head {
    char magic[8];
    uint32_t version, chunks;
};
struct chunk_head {
    uint32_t tag, pad;
    uint64_t size;
};
struct counters {
    uint64_t space, object;
    uint32_t generation, pad;
};
struct space_head {
    uint64_t id, mm_size;
    uint32_t aux_count, pad;
};
enum {
    GROUP_BORROWS = 1, /* a vfork child: its parent counts the memory */
    GROUP_DEAD = 2,    /* the host has ended it, or it cannot run on: SIGKILL is pending */
    GROUP_FLAGS = 3,
};
struct group_row {
    uint64_t space;
    uint32_t proc, flags; /* proc: index of the kernel's row */
};
enum {
    THREAD_PARKED = 1,
    THREAD_IS_CLONE = 2,
    THREAD_DEAD = 4,
    THREAD_FLAGS = 7,
};
struct thread_row {
    uint32_t thread, group; /* thread: index of the kernel's row; group: from 0 on */
    uint32_t flags, xstate; /* xstate: bytes that follow */
    uint64_t number, arg[6];
    uint64_t trap, error, address;
    struct dz_stub_regs regs;
};
_Static_assert(sizeof(struct state_head) == 16 && sizeof(struct chunk_head) == 16 &&
                   sizeof(struct counters) == 24 && sizeof(struct space_head) == 24 &&
                   sizeof(struct group_row) == 16 && sizeof(struct thread_row) == 256,
               "docs/format/linux-state.md");
#define LINUX_BAD(err, ...) dz_fail((err), DZ_ECORRUPT, "saved native programs: " __VA_ARGS__)

/* Bytes that are not trusted. */
struct linux_view {
    const uint8_t *p;
    size_t left;
};
static inline bool linux_take(struct linux_view *v, void *to, size_t n)
{
    if (n > v->left)
        return false;
    memcpy(to, v->p, n);
    v->p += n;
    v->left -= n;
    return true;
}
static inline bool linux_cut(struct linux_view *v, uint64_t n, struct linux_view *ret_part)
{
    if (n > v->left)
        return false;
    *ret_part = (struct linux_view){v->p, (size_t)n};
    v->p += n;
    v->left -= (size_t)n;
    return true;
}

/* The content of each part, by its tag. */
DZ_NODISCARD int dz_linux_state_split(struct linux_view all,
                                      struct linux_view chunks[static CHUNKS], struct dz_err *err);

#endif
