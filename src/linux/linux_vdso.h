/* SPDX-License-Identifier: MIT
 *
 * linux_vdso.h - clocks that a native program reads without a system call.
 *
 *     one object of memory for all processes of a machine
 *     0        struct dz_vdso_page       written here, read-only in guests
 *     4096     an ELF image              linux_vdso_guest.c; AT_SYSINFO_EHDR points to it
 *
 * The page describes a straight line: kernel time and real time at one value of the time stamp
 * counter, and nanoseconds for each tick. dz_linux_vdso_update() recomputes it every
 * DZ_VDSO_UPDATE_NS. If no line is valid (the counter is not invariant, or drifted; or the last
 * update is more than a second old), the image makes the system call instead.
 *
 * A thread may be suspended between any two instructions of the image and resumed on another host.
 * It then finds a different sequence number than the one it read first, and reads again: the number
 * is kernel time, which advances while a machine is suspended, so it never repeats. But the image
 * must be the one that the thread was in: a saved machine includes these bytes
 * (dz_linux_vdso_image()), and the fields of the page must never move.
 */
#ifndef DZ_LINUX_LINUX_VDSO_H
#define DZ_LINUX_LINUX_VDSO_H

#include "base/attr.h"
#include "base/err.h"
#include "linux/linux_vdso_page.h"
#include "mm/mm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DZ_VDSO_IMAGE_AT = DZ_MM_PAGE,      /* bytes of the object before the image */
    DZ_VDSO_IMAGE_MAX = 2 * DZ_MM_PAGE, /* bytes of the image */
    DZ_VDSO_UPDATE_NS = 50 * 1000 * 1000,
};

/* The clocks of the kernel: those of struct dz_kernel_ops, by dz_kernel_now(). The first one runs
 * as fast as CLOCK_BOOTTIME of the host. */
struct dz_linux_clocks {
    int64_t (*mono)(void *arg), (*real)(void *arg);
    void *arg;
};

struct dz_vdso_sample {
    uint64_t tsc;
    int64_t ns;
};
struct dz_linux_vdso {
    int fd;          /* the object: processes that map it may not write to it */
    size_t size;     /* bytes to map in a process: page and image */
    uint8_t *object; /* mapped here */
    bool tsc;        /* the host trusts its counter, and no check here has failed */
    uint64_t mult;   /* as in the page; 0: not known yet */
    int64_t real;    /* real time less kernel time */
    bool real_known;
    int64_t due;                      /* kernel time of the next update; INT64_MAX: never */
    struct dz_vdso_sample anchors[2]; /* of CLOCK_BOOTTIME, to measure the rate */
};

/* Before a jail that hides /sys: does the host trust its counter? Read once; the result holds for
 * forked processes, too. */
bool dz_linux_vdso_look(void);
void dz_linux_vdso_told(bool trusts);
/* Uses the image of this program; makes a memory file. */
DZ_NODISCARD int dz_linux_vdso_open(struct dz_linux_vdso *v, struct dz_err *err);
void dz_linux_vdso_close(struct dz_linux_vdso *v); /* also with fd -1 */
/* Use the image of a saved machine instead, before the first update. DZ_ECORRUPT: the size is
 * impossible. */
DZ_NODISCARD int dz_linux_vdso_put(struct dz_linux_vdso *v, const void *image, size_t size,
                                   struct dz_err *err);
const void *dz_linux_vdso_image(const struct dz_linux_vdso *v, size_t *ret_size);

/* Call it before the machine's first thread runs, and when `due` is reached. */
void dz_linux_vdso_update(struct dz_linux_vdso *v, const struct dz_linux_clocks *c);

/* By the Makefile. */
extern const unsigned char dz_linux_vdso_program[];
extern const size_t dz_linux_vdso_program_size;

#endif
