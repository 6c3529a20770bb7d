/* SPDX-License-Identifier: MIT
 *
 * hostile.h - attacks that run inside a real cell, zygote or call.
 *
 * A program that links hostile_hook.c and the attacks, with the linker's --wrap for the functions
 * of HOSTILE_WRAPS (Makefile), is the product plus a hook: when one of its processes is in its
 * jail and about to serve, it looks at a page that it shares with the test. If an attack is armed
 * there for this kind of process, the attack gets control instead. The product's own sources have
 * no hook, and its programs are linked without the wraps.
 *
 * The page (struct board) is a file named by the variable DZ_HOSTILE, which the hook hands on
 * through each exec. The attack says in it how far it came, so that a test can tell an attack that
 * failed from an attack that did not run:
 *
 *     taken, not tried           the hook ran, the attack did not: a broken test
 *     tried, not returned        the process died in the attempt; the parent knows by which signal
 *     returned, got nothing      the kernel refused: `error` says how
 *     returned, got it           the fence does not hold
 */
#ifndef DZ_TESTS_HOSTILE_H
#define DZ_TESTS_HOSTILE_H

#include "os/os_jail.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where an attack gets control. */
enum place {
    PLACE_NONE,
    PLACE_CELL,   /* forked by the zygote of its image, with the descriptors of its sandbox */
    PLACE_FIRST,  /* the same of the first sandbox of an image, forked by the blank zygote */
    PLACE_RUN,    /* of `doze run`: forked without a pool */
    PLACE_ZYGOTE, /* that has just opened its image */
    PLACE_CALL,   /* doze-call, with the files of its operation */
    PLACE_COUNT
};
#define AT(place)  (1u << PLACE_##place)
#define AT_CELLS   (AT(CELL) | AT(RUN) | AT(CALL)) /* the first table of docs/design/jail.md */
#define EVERYWHERE (AT_CELLS | AT(ZYGOTE))

/* The means that can stop an attack, besides the host's fences (DZ_OS_FENCE_BIT). */
enum {
    BY_FILTER = 1 << 24, /* seccomp: the process dies */
    BY_LIMITS = 1 << 25, /* resource limits */
    BY_ANEW = 1 << 26,   /* image and modules are opened anew */
    BY_LESS = 1 << 27,   /* the host has a capability that the process has not */
    BY_NOBODY = 1 << 28, /* the host is no root: there is nothing to gain */
};
#define BY(fence) DZ_OS_FENCE_BIT(fence)

/* Shared with tests in other languages: 32-bit numbers, then texts. */
struct board {
    _Atomic uint32_t place;    /* enum place that is armed; 0 from when it was taken */
    uint32_t without;          /* fences that the hook takes out, for a control run */
    _Atomic uint32_t taken;    /* the hook ran */
    _Atomic uint32_t tried;    /* the attack begins what it is about */
    _Atomic uint32_t returned; /* it is over */
    uint32_t got;              /* it got what it wanted */
    int32_t error;             /* errno */
    int32_t host;              /* process number of the test, for attacks on it */
    int32_t victim;            /* another process */
    char attack[96];           /* the name of the attack; tests/lib/zones.py writes up to here */
    _Atomic uint32_t mib;      /* that an attack has filled */
    uint32_t count;            /* how often an attack is to do what it does; 0: its own number */
};
extern struct board *hostile_board; /* NULL: not under test */

/* The descriptors of a process that was taken over; -1: none. */
struct taken {
    enum place place;
    int socket, disk, wal, image;
};

struct attack {
    const char *name;
    const char *finding; /* B1 to B12 of SECURITY.md's list of findings */
    unsigned places;     /* bits of enum place */
    uint32_t held_by;    /* any of these is enough */
    bool (*run)(const struct taken *t, struct board *b); /* NULL: the call below */
    bool (*harmed)(const struct board *b); /* in the test's process: it had an effect there */
    /* A system call. `got`: it reached the kernel, whatever that said. */
    long number;
    unsigned long args[6];
};
/* One table for each file of attacks. */
struct attacks {
    const struct attack *all;
    size_t count;
};
extern const struct attacks hostile_calls, hostile_acts, hostile_words;
/* The index-th of all; NULL behind the last. Names are unique. */
const struct attack *hostile_attack(size_t index);

extern int hostile_image; /* in the test's process: its descriptor of the image; -1 */

/* In the arguments of a call. */
#define THE_SOCKET 0x7e57000000000001ul
#define THE_DISK   0x7e57000000000002ul
#define THE_IMAGE  0x7e57000000000003ul
#define THE_HOST   0x7e57000000000004ul
#define THE_TEXT   0x7e57000000000005ul /* "/etc/passwd" */
#define SOME_ROOM  0x7e57000000000006ul /* zeroed bytes, enough for any structure */

#endif
