/* SPDX-License-Identifier: MIT
 *
 * dirty.c - memory on demand, for measuring and testing sleep: a WASI program that
 * reads commands of five bytes, a letter and a count of pages of 4 KiB, and answers
 * each with one byte.
 *
 *     g  have at least this much memory, all of it written to
 *     d  write to as many pages, from the start of that memory on
 *     s  the same, but every third page only
 *     c  answer with a checksum of as many pages
 */
typedef unsigned char u8;
typedef unsigned int u32;

struct iovec {
    void *at;
    u32 size;
};
#define WASI(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(#name)))
WASI(fd_read) int fd_read(int fd, const struct iovec *v, int count, u32 *ret_size);
WASI(fd_write) int fd_write(int fd, const struct iovec *v, int count, u32 *ret_size);
WASI(proc_exit) _Noreturn void proc_exit(int code);

enum {
    PAGE = 4096,
    WASM_PAGE = 65536,
};

extern u8 __heap_base;
static u8 *heap; /* the first whole page behind everything else */
static u32 pages, round;

/* Looks like what programs keep: some pattern, some noise. */
static void fill(u8 *page, u32 seed)
{
    u32 *p = (u32 *)(void *)page;
    for (u32 i = 0; i < PAGE / 4; i++) {
        seed = seed * 1664525 + 1013904223;
        p[i] = i % 4 == 0 ? seed : i + round;
    }
}

static void grow(u32 n)
{
    u32 have = (u32)__builtin_wasm_memory_size(0) * (WASM_PAGE / PAGE) - (u32)heap / PAGE;
    if (n > have)
        __builtin_wasm_memory_grow(0, (n - have + 15) / 16);
    for (; pages < n; pages++)
        fill(heap + (unsigned long)pages * PAGE, pages);
}

static void dirty(u32 n, u32 step)
{
    round++;
    for (u32 i = 0, at = 0; i < n; i++, at += step)
        fill(heap + (unsigned long)(at % (pages ? pages : 1)) * PAGE, round + at);
}

static u8 sum(u32 n)
{
    u32 h = 0;
    for (u32 i = 0; i < n * (PAGE / 4); i++)
        h = h * 31 + ((u32 *)(void *)heap)[i];
    return (u8)(h ^ h >> 8 ^ h >> 16 ^ h >> 24);
}

static void obey(u8 letter, u32 n)
{
    u8 answer = letter;
    struct iovec v = {&answer, 1};
    u32 size;
    if (letter == 'g')
        grow(n);
    else if (letter == 'd' || letter == 's')
        dirty(n, letter == 's' ? 3 : 1);
    else if (letter == 'c')
        answer = sum(n);
    fd_write(1, &v, 1, &size);
}

__attribute__((export_name("_start"))) void _start(void)
{
    u8 command[5];
    u32 have = 0;
    heap = (u8 *)(((unsigned long)&__heap_base + PAGE - 1) & ~(unsigned long)(PAGE - 1));
    for (;;) {
        struct iovec v = {command + have, 5 - have};
        u32 size = 0;
        if (fd_read(0, &v, 1, &size) != 0 || size == 0)
            proc_exit(0);
        have += size;
        if (have == 5) {
            obey(command[0], (u32)command[1] | (u32)command[2] << 8 | (u32)command[3] << 16);
            have = 0;
        }
    }
}
