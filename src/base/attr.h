/* SPDX-License-Identifier: MIT
 *
 * attr.h - compiler attributes and scope-exit helpers.
 *
 * The only header that may test for a compiler. Everything here compiles on
 * gcc 12, clang 14 and clang 19 in gnu17 mode.
 */
#ifndef DZ_BASE_ATTR_H
#define DZ_BASE_ATTR_H

#define DZ_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define DZ_NODISCARD    __attribute__((warn_unused_result))
#define DZ_COLD         __attribute__((cold, noinline))
#define DZ_NORETURN     __attribute__((noreturn))
#define dz_likely(x)    __builtin_expect(!!(x), 1)
#define dz_unlikely(x)  __builtin_expect(!!(x), 0)

/* Tells gcc -fanalyzer which function frees what this one returns. */
#if defined(__GNUC__) && !defined(__clang__)
#define DZ_ALLOC(free_fn) __attribute__((__malloc__, __malloc__(free_fn, 1), warn_unused_result))
#else
#define DZ_ALLOC(free_fn) __attribute__((__malloc__, warn_unused_result))
#endif

/* For a large buffer on a hot path that is written before it is read: exempts it from the release
 * build's zeroing of all automatic variables. */
#if __has_attribute(uninitialized)
#define DZ_UNINIT __attribute__((uninitialized))
#else
#define DZ_UNINIT
#endif

/* 1: assertions that walk whole tables run too, after every call that could break what they
 * check. The Makefile sets it for debug, asan and fuzz; all other assertions are in every build. */
#ifndef DZ_CHECK_DEEP
#define DZ_CHECK_DEEP 0
#endif

/* Run f(&variable) when the variable leaves scope; see STYLE.md "Ownership". */
#define DZ_AUTO(f) __attribute__((cleanup(f)))

/* Move an owned pointer or fd out of a variable that has DZ_AUTO on it. */
#define DZ_TAKE_PTR(p)              \
    ({                              \
        __typeof__(p) taken_ = (p); \
        (p) = NULL;                 \
        taken_;                     \
    })
#define DZ_TAKE_FD(fd)     \
    ({                     \
        int taken_ = (fd); \
        (fd) = -1;         \
        taken_;            \
    })

#define DZ_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
