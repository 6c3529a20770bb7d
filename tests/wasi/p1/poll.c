/* SPDX-License-Identifier: MIT
 * poll_oneoff, and what a program has from its start. */
#include "p1.h"

struct subscription {
    uint64_t userdata;
    uint8_t tag;
    union {
        struct {
            uint32_t id;
            uint64_t timeout, precision;
            uint16_t flags;
        } clock;
        uint32_t fd;
    };
};
struct event {
    uint64_t userdata;
    uint16_t error;
    uint8_t type;
    uint64_t size;
    uint16_t flags;
};
_Static_assert(sizeof(struct subscription) == 48 && sizeof(struct event) == 32,
               "as the interface has them");
enum {
    CLOCK = 0,
    READ = 1,
    WRITE = 2,
    ABSOLUTE = 1,
};

static uint64_t now(int clock)
{
    uint64_t t = 0;
    IS(p1_clock_time_get(clock, 0, &t), OK);
    return t;
}

static struct subscription timer(int clock, uint64_t ns, uint16_t flags, uint64_t userdata)
{
    struct subscription s = {.userdata = userdata, .tag = CLOCK};
    s.clock.id = (uint32_t)clock;
    s.clock.timeout = ns;
    s.clock.flags = flags;
    return s;
}

static struct subscription file(int fd, uint8_t tag, uint64_t userdata)
{
    struct subscription s = {.userdata = userdata, .tag = tag};
    s.fd = (uint32_t)fd;
    return s;
}

static void clocks(void)
{
    struct event e[2] = {{0}};
    uint32_t n = 0;
    uint64_t start = now(1);
    struct subscription s = timer(1, 20000000, 0, 7);
    IS(p1_poll_oneoff(&s, e, 1, &n), OK);
    IS(n, 1);
    IS(e[0].userdata, 7);
    IS(e[0].type, CLOCK);
    IS(e[0].error, OK);
    IS(now(1) - start >= 20000000, 1);
    s = timer(1, now(1) + 5000000, ABSOLUTE, 8);
    IS(p1_poll_oneoff(&s, e, 1, &n), OK);
    IS(e[0].userdata, 8);
    s = timer(0, now(0) - 1, ABSOLUTE, 9); /* over already */
    IS(p1_poll_oneoff(&s, e, 1, &n), OK);
    IS(e[0].userdata, 9);
    struct subscription two[2] = {timer(1, 3600000000000u, 0, 1), timer(1, 1000000, 0, 2)};
    IS(p1_poll_oneoff(two, e, 2, &n), OK);
    IS(n, 1);
    IS(e[0].userdata, 2);
    two[0] = timer(0, 0, 0, 3);
    two[1] = timer(1, 0, 0, 4);
    IS(p1_poll_oneoff(two, e, 2, &n), OK);
    IS(n, 2);
    IS(e[0].userdata, 3);
    IS(e[1].userdata, 4);
    s = timer(9, 1, 0, 1);
    IS(p1_poll_oneoff(&s, e, 1, &n), E_INVAL);
}

static void files(void)
{
    struct event e[3];
    uint32_t n = 0;
    int fd = OPEN("f", O_CREAT, R_READ | R_WRITE | R_POLL), no = OPEN("f", 0, R_READ);
    IS(write_(fd, "12345"), 5);
    struct subscription s[3] = {file(1, WRITE, 1), file(2, WRITE, 2), timer(1, 1u << 30, 0, 3)};
    IS(p1_poll_oneoff(s, e, 3, &n), OK);
    IS(n, 2);
    IS(e[0].userdata == 1 && e[0].type == WRITE && e[0].error == OK, 1);
    IS(e[1].userdata == 2 && e[1].type == WRITE && e[1].error == OK, 1);
    s[0] = file(0, READ, 4); /* at its end: ready */
    IS(p1_poll_oneoff(s, e, 1, &n), OK);
    IS(n == 1 && e[0].userdata == 4 && e[0].type == READ && e[0].error == OK, 1);
    s[0] = file(99, READ, 5);
    s[1] = file(fd, READ, 6);
    s[2] = file(no, READ, 7);
    IS(p1_poll_oneoff(s, e, 3, &n), OK);
    IS(n, 3);
    IS(e[0].error, E_BADF);
    IS(e[1].error, OK);
    IS(e[2].error, E_NOTCAPABLE);
    s[0].tag = 3;
    IS(p1_poll_oneoff(s, e, 1, &n), E_INVAL);
    IS(p1_poll_oneoff(s, e, 0, &n), E_INVAL);
    IS(p1_poll_oneoff((void *)0xffffffe0u, e, 1, &n), E_FAULT);
    IS(p1_poll_oneoff(s, (void *)0xfffffff0u, 1, &n), E_FAULT);
}

static void beginnings(void)
{
    uint32_t count = 0, size = 0;
    char *argv[4], buf[64];
    IS(p1_args_sizes_get(&count, &size), OK);
    IS(count, 1);
    IS(size, sizeof "test.wasm");
    IS(p1_args_get(argv, buf), OK);
    IS(argv[0] == buf && strcmp(buf, "test.wasm") == 0, 1);
    IS(p1_args_get((void *)0xfffffffeu, buf), E_FAULT);
    IS(p1_args_sizes_get((void *)0xfffffffeu, &size), E_FAULT);
    IS(p1_environ_sizes_get(&count, &size), OK);
    IS(count, 0);
    IS(size, 0);
    IS(p1_environ_get(argv, buf), OK);
    IS(p1_sched_yield(), OK);
    IS(p1_proc_raise(0), E_INVAL);
    IS(p1_proc_raise(99), E_INVAL);
}

static void randomness(void)
{
    static uint8_t big[1024], seen[256];
    int kinds = 0;
    IS(p1_random_get(big, sizeof big), OK);
    for (unsigned i = 0; i < sizeof big; i++)
        kinds += !seen[big[i]]++;
    IS(kinds > 100, 1);
    IS(p1_random_get(big, 0), OK);
    IS(p1_random_get((void *)0xffffff00u, 0x200), E_FAULT);
}

int main(void)
{
    clocks();
    files();
    beginnings();
    randomness();
    return bad;
}
