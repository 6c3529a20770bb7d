/* SPDX-License-Identifier: MIT
 *
 * linux.h - the x86-64 Linux ABI's side of the kernel. So far: how a program is loaded.
 *
 * dz_elf_read() reads the head of an ELF file into a struct; dz_linux_load() lays a program, its
 * interpreter and its stack into a fresh address space. Neither makes a system call or keeps a
 * pointer: the result is the list of calls of mm/mm.h, bytes for the stack, and two registers.
 *
 *     file ── dz_elf_read() ── the interpreter's path, which the caller opens and reads as well
 *                  │
 *             dz_linux_load() ── struct dz_mm, list of calls, zeros, stack, entry
 *
 * Files are hostile: every number in them is checked. Errors are negative errnos, those that
 * execve(2) answers on Linux.
 */
#ifndef DZ_LINUX_LINUX_H
#define DZ_LINUX_LINUX_H

#include "base/attr.h"
#include "base/vec.h"
#include "kernel/kernel.h"
#include "mm/mm.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    DZ_ELF_SEGMENTS_MAX = 128,        /* PT_LOAD of one file */
    DZ_ELF_PATH_MAX = 4096,           /* bytes of the interpreter's path, its NUL included */
    DZ_LINUX_STRING_MAX = 128 << 10,  /* bytes of one argument, its NUL included */
    DZ_LINUX_STRINGS_MIN = 128 << 10, /* the room for all strings under any RLIMIT_STACK, */
    DZ_LINUX_STRINGS_MAX = 6 << 20,   /* and without one */
    DZ_LINUX_STACK_SPARE = 128 << 10, /* bytes of the stack below sp that are mapped at once */
    DZ_LINUX_AUX_MAX = 24,            /* pairs of the auxiliary vector */
};

/* A file that exec reads and maps. */
struct dz_linux_file {
    struct dz_mm_back back; /* of its first byte: FILE or PACK */
    /* Reads up to n bytes at an offset from there; returns how many, 0 at the end, or a negative
     * errno. */
    int64_t (*read)(void *arg, uint64_t offset, void *to, size_t n);
    void *arg;
};

/* Sizes and addresses in bytes, as in the file: not relocated. */
struct dz_elf_segment {
    uint64_t start, size, file_size, offset;
    int prot;
};
struct dz_elf {
    bool moves;      /* ET_DYN: can be loaded anywhere */
    bool exec_stack; /* PT_GNU_STACK asks for one */
    uint64_t entry;
    uint64_t heads;      /* address of the program headers; 0: in no segment */
    uint32_t head_count; /* of all types */
    uint64_t low, high;  /* whole pages around all segments */
    uint64_t align;      /* bytes, a power of two, at least a page */
    struct dz_elf_segment segments[DZ_ELF_SEGMENTS_MAX];
    uint32_t segment_count;
    char interp[DZ_ELF_PATH_MAX]; /* "": none */
};

/* 0, or -ENOEXEC (not a program of this machine, or unsound), -EINVAL (segments that cannot be
 * mapped), -EIO (shorter than its headers say), or an error of read(). On failure *ret_elf is
 * unchanged. */
DZ_NODISCARD int dz_elf_read(const struct dz_linux_file *file, struct dz_elf *ret_elf);

/* What the auxiliary vector tells the process about itself. */
struct dz_linux_aux {
    uint32_t uid, euid, gid, egid;
    bool secure;          /* AT_SECURE: the program's file gave it other ids */
    uint64_t hwcap;       /* cpuid 1: edx */
    uint64_t hwcap2;      /* bit 1: FSGSBASE */
    uint64_t signal_size; /* least size of a signal frame, in bytes; 0: unknown */
    uint8_t random[16];
};

struct dz_linux_program {
    const struct dz_elf *elf, *interp; /* interp NULL: the program starts itself */
    const struct dz_linux_file *elf_file, *interp_file;
    uint64_t base; /* dz_mm_program_base(): the address of a program that can be loaded anywhere and
                      has an interpreter, else of the heap */
    uint64_t seed; /* for the heap, the seed of dz_mm_init; 0: none */
    const char *path; /* the path given to exec: AT_EXECFN */
    struct dz_strings argv, env;
    struct dz_linux_aux aux;
    struct dz_mm_back vdso; /* linux_vdso.h: a page of data, then an image; */
    uint64_t vdso_size;     /* bytes of both; 0: none */
};

DZ_VEC(dz_linux_zeros, struct dz_mm_range);
/* The platform writes the zeros and the stack after it has executed the list's calls. */
struct dz_linux_start {
    struct dz_linux_zeros zeros; /* bytes to clear: after a file's end, in .bss */
    uint8_t *stack;              /* the bytes from sp to the end of the stack */
    size_t stack_size;           /* bytes */
    uint64_t sp, entry;          /* rsp and rip; every other register is 0 */
    uint64_t aux[DZ_LINUX_AUX_MAX]
                [2];    /* the auxiliary vector and its number of pairs, which is also on */
    uint32_t aux_count; /* the stack, where the program may change it */
};
void dz_linux_start_release(struct dz_linux_start *start); /* also a zeroed struct */

/* `mm` is fresh from dz_mm_init. 0, or -E2BIG (arguments), -ENOMEM, -EPERM (a segment below
 * DZ_MM_ADDRESS_MIN), -EEXIST (the parts overlap): then mm and the list are partly done and
 * useless. */
DZ_NODISCARD int dz_linux_load(const struct dz_linux_program *program, struct dz_mm *mm,
                               struct dz_mm_calls *calls, struct dz_linux_start *ret_start);

#endif
