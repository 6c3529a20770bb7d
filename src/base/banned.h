/* SPDX-License-Identifier: MIT
 *
 * banned.h - functions that this tree does not call.
 *
 * The Makefile includes this file before every file of src/ (-include), so using one of these names
 * is a compile error. The comment beside each names the replacement. Only base/mem.c, the one door
 * to the heap, defines DZ_MEM_IMPL.
 */
#ifndef DZ_BASE_BANNED_H
#define DZ_BASE_BANNED_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The C library's fortified forms for clang are macros. */
#undef asprintf
#undef sprintf

#ifndef DZ_MEM_IMPL
#pragma GCC poison malloc calloc realloc reallocarray valloc memalign /* base/mem.h */
#pragma GCC poison strdup strndup asprintf vasprintf getline          /* base/mem.h, base/buf.h */
#endif
#pragma GCC poison strcpy strcat strncpy strncat stpcpy sprintf vsprintf gets  /* base/buf.h */
#pragma GCC poison strtok atoi atol atoll atof strtol strtoul strtoll strtoull /* base/num.h */
#pragma GCC poison gmtime localtime asctime           /* the _r forms, base/clock.h */
#pragma GCC poison system popen tmpnam tempnam mktemp /* os/proc.h, base/fd.h */
#pragma GCC poison srand srandom drand48              /* base/id.h */
/* Only their calls: fields and parameters may have these names. */
#define rand()   dz_banned_rand_see_base_id_h()
#define ctime(t) dz_banned_ctime_see_base_clock_h()

#endif
