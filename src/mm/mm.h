/* SPDX-License-Identifier: MIT
 *
 * mm.h - the address space of a native (x86-64 Linux) guest process, as data.
 *
 * A struct dz_mm is a sorted array of VMAs and a few numbers. Each operation below returns what
 * Linux returns (an address or 0, or a negative errno), changes the data, and appends to the
 * caller's list the calls that give a host process the same memory. The module makes no system
 * call: the lists are the whole interface to a platform.
 *
 *     guest's call ── dz_mm_mmap() ──> answer
 *                          │ └───────> struct dz_mm_calls: the platform executes them, in order
 *                          └─────────> VMAs: all that a suspended machine keeps
 *
 * An operation that fails with an errno has the effect that Linux leaves: none, but for mprotect
 * and madvise, which stop at the VMA that refuses. A failed allocation is -ENOMEM without an
 * effect, except madvise's on earlier VMAs. Appended calls must be executed even if the operation
 * failed. If the host refuses a call, data and host differ: the process must be killed.
 *
 * Addresses and lengths are bytes; pages have 4 KiB. One thread at a time for each dz_mm.
 */
#ifndef DZ_MM_MM_H
#define DZ_MM_MM_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_MM_PAGE = 4096,
    DZ_MM_VMAS_MAX = 65530,       /* as vm.max_map_count of Linux */
    DZ_MM_CALLS_MAX = 1 << 16,    /* of one list */
    DZ_MM_RESERVED_MAX = 4,       /* ranges that no guest may map */
    DZ_MM_GUARD_GAP = 256 * 4096, /* bytes kept free below a stack that grows */
    DZ_MM_STACK_STEP = 16 * 4096, /* bytes that a stack grows at once, if there is room */
    DZ_MM_ROW_MAX = 4 << 20,      /* bytes of an encoded address space */
    DZ_MM_TEXT_MAX = 64 << 20,    /* bytes of the text of /proc/PID/maps */
};
#define DZ_MM_ADDRESS_MIN UINT64_C(0x10000)        /* as vm.mmap_min_addr of Debian */
#define DZ_MM_ADDRESS_MAX UINT64_C(0x7ffffffff000) /* end of user memory, four levels of tables */

/* The content of a page that nobody has written. The numbers are part of the row's format. */
enum dz_mm_kind {
    DZ_MM_ANON = 0,   /* zeros */
    DZ_MM_FILE = 1,   /* a file of the disk: id is its inode */
    DZ_MM_OBJECT = 2, /* shared memory: id is the object's number */
    DZ_MM_PACK = 3,   /* the image's flat file of mapped files: id is the pack's number */
};
struct dz_mm_back {
    enum dz_mm_kind kind;
    uint32_t generation; /* of a file's content */
    uint64_t id;
    uint64_t offset; /* bytes; of the VMA's first page; 0 for ANON */
};

enum dz_mm_flag {
    DZ_MM_SHARED = 1 << 0,
    DZ_MM_GROWSDOWN = 1 << 1,
    DZ_MM_NORESERVE = 1 << 2,
    DZ_MM_DONTFORK = 1 << 3,
    DZ_MM_WIPEONFORK = 1 << 4,
    DZ_MM_DONTDUMP = 1 << 5,
    DZ_MM_RANDOM = 1 << 6,
    DZ_MM_SEQUENTIAL = 1 << 7,
    DZ_MM_HUGE = 1 << 8,
    DZ_MM_NOHUGE = 1 << 9,
    DZ_MM_CHARGED = 1 << 10, /* a private file mapping that was writable once */
    DZ_MM_FLAGS_ALL = (1 << 11) - 1,
};

/* Mapped [start, end). Adjacent VMAs that can be merged are merged. */
struct dz_mm_vma {
    uint64_t start, end;
    struct dz_mm_back back;
    uint32_t flags; /* enum dz_mm_flag */
    uint8_t prot;   /* PROT_READ | PROT_WRITE | PROT_EXEC */
    uint8_t may;    /* the most that mprotect may grant */
};
DZ_VEC(dz_mm_vmas, struct dz_mm_vma);

/* A call that the platform executes in the process. */
enum dz_mm_op {
    DZ_MM_MMAP,     /* at, size, prot, flags (MAP_*, always MAP_FIXED), back */
    DZ_MM_MUNMAP,   /* at, size */
    DZ_MM_MPROTECT, /* at, size, prot */
    DZ_MM_MREMAP,   /* at, size, to, flags (MREMAP_*, always FIXED): no change of size */
    DZ_MM_MADVISE,  /* at, size, advice */
    DZ_MM_SYNC, /* at, size, back: no system call; the caller writes these bytes back to the file */
};
struct dz_mm_call {
    enum dz_mm_op op;
    int prot, flags, advice;
    uint64_t at, size, to;
    struct dz_mm_back back;
};
DZ_VEC(dz_mm_calls, struct dz_mm_call);

struct dz_mm_range {
    uint64_t start, end;
};

/* Bytes, UINT64_MAX for none, and a number of VMAs. `data` bounds private writable memory: the
 * smaller of RLIMIT_DATA and the rest of the machine's policy limit. */
struct dz_mm_limits {
    uint64_t as, data, stack;
    uint32_t vmas; /* at most DZ_MM_VMAS_MAX */
};

struct dz_mm {
    struct dz_mm_vmas vmas; /* sorted, disjoint */
    struct dz_mm_limits limits;
    struct dz_mm_range
        reserved[DZ_MM_RESERVED_MAX]; /* sorted; closed to guests; given by the caller */
    uint32_t reserved_count;
    uint64_t mmap_base;      /* mappings without an address go below, top down */
    uint64_t stack_top;      /* where exec puts the end of the stack */
    uint64_t brk_start, brk; /* 0: no heap yet */
    uint64_t data_size;      /* bytes of the program's data segment, which count for brk */
    uint64_t total, data;    /* bytes of all VMAs; of private writable ones */
};

/* An empty address space, as exec makes it. The seed decides mmap_base, stack_top and, with
 * dz_mm_set_brk, the heap; a random seed makes them as random as on Linux; 0: none. `reserved` is
 * copied; its ranges are sorted, disjoint, of whole pages. Allocates nothing. */
void dz_mm_init(struct dz_mm *mm, uint64_t seed, const struct dz_mm_limits *limits,
                const struct dz_mm_range *reserved, uint32_t reserved_count);
void dz_mm_release(struct dz_mm *mm); /* also a zeroed struct */

/* fork: *ret_copy, uninitialised, becomes the child's memory. The host's fork makes the same copy,
 * because it was given DONTFORK and WIPEONFORK. 0 or -ENOMEM. */
DZ_NODISCARD int dz_mm_fork(const struct dz_mm *mm, struct dz_mm *ret_copy);

/* The heap starts at the page after the program, or at a random one above. */
void dz_mm_set_brk(struct dz_mm *mm, uint64_t program_end, uint64_t data_size, uint64_t seed);

/* The address where exec puts a program that can be loaded anywhere, with the same seed. */
uint64_t dz_mm_program_base(uint64_t seed);

/* The address that a mapping of so many bytes (whole pages, at most DZ_MM_ADDRESS_MAX) would get:
 * the hint if it is free, else in the highest hole. flags: MAP_32BIT is used. 0: no room. */
uint64_t dz_mm_place(const struct dz_mm *mm, uint64_t hint, uint64_t size, int flags);

/* The VMA at this address or the first one above; NULL. Borrowed until the next change. */
const struct dz_mm_vma *dz_mm_find(const struct dz_mm *mm, uint64_t at);

/* mmap(2). `back` is the descriptor's file, with the offset of the call; kind ANON for a private
 * MAP_ANONYMOUS and a fresh object for a shared one. `may` is PROT_READ for a descriptor open for
 * reading, PROT_WRITE for writing, PROT_EXEC unless its mount forbids that. */
struct dz_mm_map {
    uint64_t at, size;
    int prot, flags;
    uint8_t may;
    struct dz_mm_back back;
};
int64_t dz_mm_mmap(struct dz_mm *mm, const struct dz_mm_map *map, struct dz_mm_calls *calls);
int dz_mm_munmap(struct dz_mm *mm, uint64_t at, uint64_t size, struct dz_mm_calls *calls);
int dz_mm_mprotect(struct dz_mm *mm, uint64_t at, uint64_t size, int prot,
                   struct dz_mm_calls *calls);

/* mremap(2). `to` is used with MREMAP_FIXED, and is a hint with MREMAP_DONTUNMAP. */
struct dz_mm_remap {
    uint64_t at, old_size, new_size;
    int flags;
    uint64_t to;
};
int64_t dz_mm_mremap(struct dz_mm *mm, const struct dz_mm_remap *r, struct dz_mm_calls *calls);

/* The system call brk: returns the new break, or the old one if it cannot move. */
uint64_t dz_mm_brk(struct dz_mm *mm, uint64_t brk, struct dz_mm_calls *calls);

int dz_mm_madvise(struct dz_mm *mm, uint64_t at, uint64_t size, int advice,
                  struct dz_mm_calls *calls);
int dz_mm_msync(struct dz_mm *mm, uint64_t at, uint64_t size, int flags, struct dz_mm_calls *calls);

/* A fault of the process: access is PROT_READ, PROT_WRITE or PROT_EXEC. 0: a stack grew, the
 * instruction may run again; 1: the memory is there and permits it, so the fault has another reason
 * (the end of a file, a page that is not present yet); -EACCES, -EFAULT: SIGSEGV with SEGV_ACCERR,
 * SEGV_MAPERR; -ENOMEM. */
int dz_mm_fault(struct dz_mm *mm, uint64_t at, int access, struct dz_mm_calls *calls);

/* The text of /proc/PID/maps. `name` gives the name of a backing; its path is borrowed. */
struct dz_mm_name {
    const char *path; /* NULL: none */
    uint32_t major, minor;
    uint64_t inode,
        /* The offset in the file; by default that of the backing. */
        offset;
};
typedef void dz_mm_name_fn(void *arg, const struct dz_mm_back *back, struct dz_mm_name *ret_name);
void dz_mm_maps(const struct dz_mm *mm, dz_mm_name_fn *name, void *arg, struct dz_buf *to);

/* An address space as bytes; docs/design/mm.md has the format. The reserved ranges are not
 * included. Decoding initialises *ret_mm like dz_mm_init, and checks every byte: DZ_ECORRUPT. */
void dz_mm_encode(const struct dz_mm *mm, struct dz_buf *to);
DZ_NODISCARD int dz_mm_decode(const uint8_t *bytes, size_t size, const struct dz_mm_range *reserved,
                              uint32_t reserved_count, struct dz_mm *ret_mm, struct dz_err *err);

/* Let fn change the backing of each VMA, which has so many bytes: 0, or what fn returned instead;
 * the address space can then only be released. */
int dz_mm_rebase(struct dz_mm *mm, int (*fn)(void *arg, uint64_t size, struct dz_mm_back *back),
                 void *arg);
/* Append the calls that map VMA i into a process that has nothing there. 0 or -ENOMEM. */
DZ_NODISCARD int dz_mm_lay(const struct dz_mm *mm, size_t i, struct dz_mm_calls *calls);

/* Aborts unless the invariants hold: for tests, as it reads every VMA. */
void dz_mm_assert(const struct dz_mm *mm);

#endif
