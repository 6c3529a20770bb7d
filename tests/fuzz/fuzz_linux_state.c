/* SPDX-License-Identifier: MIT
 *
 * Input: changes to the saved state of native programs (docs/format/linux-state.md): offset (2),
 * number of bytes (1), bytes. An offset of 0xffff cuts the state off there. The state goes into a
 * fresh kernel and runner. It must be refused, or run: its programs then make calls, fault, and
 * end. */
#include "../lib/linux_play.h"

#include "linux/linux_inspect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    LIVES = 64, /* runs over one disk */
    TURNS = 40,
    CUT = 0xffff,
};
static struct rig disk;
static struct lplay asleep;
static struct asleep saved;

static void begin(void)
{
    lplay_disk(&disk);
    lplay_machine(&asleep, &disk, 0);
    lplay_spawn(&asleep);
    lplay_settle(&asleep);
    if (asleep_save(&saved, asleep.l, asleep.k, NULL) != 0)
        abort();
}
static void end(void)
{
    asleep_release(&saved);
    lplay_free(&asleep);
    rig_free(&disk);
}

static int on_thread(void *arg, const struct dz_linux_inspect_thread *t, struct dz_err *err)
{
    (void)err;
    *(size_t *)arg += strlen(t->call);
    return 0;
}
static int on_space(void *arg, uint64_t space, const struct dz_buf *maps, struct dz_err *err)
{
    (void)space, (void)err;
    *(size_t *)arg += strlen(maps->p);
    return 0;
}
static void on_inode(void *arg, uint64_t ino)
{
    *(size_t *)arg += ino;
}
static void inspect(const void *bytes, size_t size)
{
    size_t n = 0;
    const struct dz_linux_inspect_ops ops = {.thread = on_thread, .space = on_space, .arg = &n};
    (void)!dz_linux_inspect(bytes, size, &ops, NULL);
    (void)!dz_linux_inspect_inodes(bytes, size, on_inode, &n, NULL);
}

static size_t change(const uint8_t *data, size_t size, uint8_t *state, size_t n)
{
    while (size >= 3) {
        const size_t at = (size_t)data[0] | (size_t)data[1] << 8, count = data[2];
        data += 3;
        size -= 3;
        if (at == CUT)
            n = n * count / 256;
        const size_t part = count < size ? count : size;
        if (at != CUT && at < n)
            memcpy(state + at, data, part < n - at ? part : n - at);
        data += at == CUT ? 0 : part;
        size -= at == CUT ? 0 : part;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int lives;
    struct lplay to;
    if (lives-- == 0) {
        begin();
        lives = LIVES;
    }
    struct asleep s = saved;
    uint8_t *state = malloc(saved.state.len); /* exact size: overreads are seen by ASan */
    if (!state)
        abort();
    memcpy(state, saved.state.p, saved.state.len);
    s.state.len = change(data, size, state, saved.state.len);
    state = realloc(state, s.state.len ? s.state.len : 1);
    s.state.p = (char *)state;
    inspect(state, s.state.len);
    lplay_machine(&to, &disk, 0);
    const int rc = asleep_wake(&s, asleep.k, to.k, to.l, NULL);
    dz_linux_release(to.l);
    for (int i = 0; rc == 0 && i < TURNS && lplay_turn(&to); i++)
        continue;
    lplay_free(&to);
    free(state);
    if (lives == 0)
        end();
    return 0;
}
