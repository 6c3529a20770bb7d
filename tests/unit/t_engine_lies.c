/* SPDX-License-Identifier: MIT
 *
 * The engine with a cell that was taken over: what it says is not so, or is said too often. The
 * cell is a real one; recvmsg() below puts a lie in place of what it says.
 */
#include "../lib/engine_rig.h"

#include "cell/cell_int.h"

#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* --- lies ----------------------------------------------------------------------------------- */

/* A packet in place of each that the cell of this rig's only sandbox sends, `lies_left` times. */
static struct {
    const struct rig *in; /* NULL: the truth is heard */
    uint8_t packet[sizeof(struct dz_frame) + DZ_CELL_FRAME_MAX];
    size_t size;
    unsigned left, told;
} lie;

static bool lies(int fd)
{
    if (!lie.in || lie.left == 0)
        return false;
    const struct box *b = only(lie.in);
    return b && b->cell && b->phase == BOX_UP && dz_cell_fd(b->cell) == fd;
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    ssize_t n = syscall(SYS_recvmsg, fd, msg, flags);
    if (n <= 0 || !lies(fd))
        return n;
    lie.left--;
    lie.told++;
    size_t head = sizeof(struct dz_frame);
    CHECK(msg->msg_iovlen == 2 && msg->msg_iov[0].iov_len == head);
    memcpy(msg->msg_iov[0].iov_base, lie.packet, head);
    memcpy(msg->msg_iov[1].iov_base, lie.packet + head, lie.size - head);
    return (ssize_t)lie.size;
}

/* One frame `count` times, in one packet. */
static void lie_of(struct rig *r, const struct dz_frame *f, const void *payload, unsigned count)
{
    struct dz_frame together = {.type = DZ_FRAME_TOGETHER};
    lie.size = sizeof together;
    for (unsigned i = 0; i < count; i++) {
        CHECK(lie.size + sizeof *f + f->size <= sizeof lie.packet);
        memcpy(lie.packet + lie.size, f, sizeof *f);
        if (f->size)
            memcpy(lie.packet + lie.size + sizeof *f, payload, f->size);
        lie.size += sizeof *f + f->size;
    }
    together.size = (uint32_t)(lie.size - sizeof together);
    memcpy(lie.packet, &together, sizeof together);
    lie.in = r;
    lie.told = 0;
}

/* A command that prints for ever: its sandbox's cell has always something to say. */
static void talk(struct rig *r, struct asker *a)
{
    CHECK_INT(run(r, "a", "f", a), 0);
    UNTIL(r, a->bytes > 0 || a->failed);
}

struct seen {
    const char *what;
    int count;
    size_t longest;
};

static int on_event(void *arg, const struct dz_registry_event *e)
{
    struct seen *s = arg;
    size_t n = e->detail ? strlen(e->detail) : 0;
    if (strcmp(e->what, s->what) != 0)
        return 0;
    s->count++;
    s->longest = n > s->longest ? n : s->longest;
    return 0;
}

static struct seen events(struct rig *r, const char *what)
{
    const struct dz_registry_event_filter f = {.limit = DZ_REGISTRY_LIST_MAX};
    struct seen s = {.what = what};
    CHECK_INT(dz_registry_events(r->e->registry, &f, on_event, &s, NULL), 0);
    return s;
}

/* --- words that come too often -----------------------------------------------------------------
 */

static char long_text[3000];

TEST(a_full_disk_is_told_once_in_a_while_and_shortly)
{
    struct rig r;
    struct asker a;
    memset(long_text, 'x', sizeof long_text);
    const struct dz_frame full = {.type = DZ_FRAME_FULL, .size = sizeof long_text};
    rig_open(&r);
    talk(&r, &a);
    lie_of(&r, &full, long_text, 10);
    lie.left = 1;
    UNTIL(&r, lie.told == 1);
    UNTIL(&r, in_state(&r, "a", "suspended"));
    lie.in = NULL;
    struct seen s = events(&r, "disk_full");
    CHECK_INT(s.count, 1);
    CHECK(s.longest < 256);
    run_well(&r, "a");
    rig_close(&r);
}

static void flood(const struct dz_frame *f, const void *payload)
{
    struct rig r;
    struct asker a;
    rig_open(&r);
    talk(&r, &a);
    struct seen before = events(&r, "disk_full");
    lie_of(&r, f, payload, 200);
    lie.left = 20;
    UNTIL(&r, in_state(&r, "a", "suspended"));
    lie.in = NULL;
    CHECK(lie.told < 5);
    CHECK(events(&r, "disk_full").count - before.count <= 1);
    CHECK_INT(events(&r, "crashed").count, 1);
    run_well(&r, "a");
    rig_close(&r);
}

TEST(a_cell_that_says_without_end_that_the_disk_is_full_is_killed)
{
    const struct dz_frame full = {.type = DZ_FRAME_FULL, .size = 100};
    flood(&full, long_text);
}

TEST(a_cell_that_says_without_end_what_it_does_is_killed)
{
    const struct dz_frame_activity busy = {.cpu_ns = 1, .wake_at = 1};
    const struct dz_frame f = {.type = DZ_FRAME_ACTIVITY, .size = sizeof busy};
    flood(&f, &busy);
}

/* --- figures ------------------------------------------------------------------------------------
 */

TEST(figures_of_a_cell_are_checked)
{
    static const struct dz_frame_activity bad[] = {
        {.cpu_ns = INT64_MIN}, {.cpu_ns = -1}, {.wake_at = INT64_MIN}, {.wake_at = -1}};
    static const struct dz_frame_activity good[] = {
        {.cpu_ns = 1}, {.cpu_ns = INT64_MAX, .wake_at = INT64_MAX - 1}, {.cpu_ns = 0}};
    const struct dz_frame f = {.type = DZ_FRAME_ACTIVITY, .size = sizeof bad[0]};
    struct rig r;
    struct asker a;
    rig_open(&r);
    talk(&r, &a);
    for (size_t i = 0; i < DZ_ARRAY_LEN(good); i++) {
        lie_of(&r, &f, &good[i], 1);
        lie.left = 1;
        UNTIL(&r, lie.told == 1);
        CHECK(a.failed == 0);
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(bad); i++) {
        lie.in = NULL;
        if (i)
            talk(&r, &a);
        lie_of(&r, &f, &bad[i], 1);
        lie.left = 1;
        UNTIL(&r, a.failed > 0);
        UNTIL(&r, in_state(&r, "a", "suspended"));
    }
    lie.in = NULL;
    run_well(&r, "a");
    rig_close(&r);
}
