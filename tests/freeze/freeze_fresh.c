/* SPDX-License-Identifier: MIT
 *
 * freeze_fresh.c - finishing a saved world in a fresh process.
 *
 * The parent writes everything into a memory file: the dispatch, the module,
 * the host's state and the engine's. The child is this program started anew
 * with that file as its standard input; it answers with a struct outcome.
 */
#include "freeze.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct letter {
    uint64_t dispatch, wasm_size, state_size;
};

static bool write_all(int fd, const void *data, size_t size)
{
    const char *p = data;
    while (size) {
        ssize_t n = write(fd, p, size);
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t size)
{
    char *p = data;
    while (size) {
        ssize_t n = read(fd, p, size);
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

/* Start this program with stdin = in; its output goes to *ret_out. */
static pid_t start(int in, int *ret_out)
{
    static char path[] = "/proc/self/exe", option[] = "--resume";
    char *argv[] = {path, option, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid = -1;
    if (pipe(ends) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    if (posix_spawn(&pid, path, &actions, NULL, argv, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    *ret_out = ends[0];
    return pid;
}

struct outcome fresh_finish(struct world *w, const void *wasm, size_t size)
{
    struct bytes state = {0};
    struct outcome o = {.stop = UINT32_MAX};
    world_save(w, &state);
    struct letter letter = {(uint64_t)other_dispatch(w->dispatch), size, state.size};
    int status = -1, out = -1, in = memfd_create("state", MFD_CLOEXEC);
    if (in >= 0 && write_all(in, &letter, sizeof letter) && write_all(in, wasm, size) &&
        write_all(in, state.p, state.size) && lseek(in, 0, SEEK_SET) == 0) {
        pid_t pid = start(in, &out);
        if (pid < 0 || !read_all(out, &o, sizeof o))
            o.stop = UINT32_MAX;
        if (pid > 0 && (waitpid(pid, &status, 0) != pid || status != 0))
            o.stop = UINT32_MAX - 1;
    }
    (void)close(in);
    (void)close(out);
    bytes_free(&state);
    return o;
}

int fresh_main(void)
{
    struct letter letter;
    struct bytes state = {0};
    struct world w;
    if (!read_all(0, &letter, sizeof letter))
        return 1;
    void *wasm = malloc(letter.wasm_size);
    state.p = malloc(letter.state_size);
    state.size = state.cap = letter.state_size;
    if (!wasm || !state.p || !read_all(0, wasm, letter.wasm_size) ||
        !read_all(0, state.p, state.size))
        return 1;
    world_open(&w, wasm, letter.wasm_size, (enum dz_wasm_dispatch)letter.dispatch);
    world_load(&w, &state);
    struct outcome o = world_finish(&w);
    world_close(&w);
    bytes_free(&state);
    free(wasm);
    return write_all(1, &o, sizeof o) ? 0 : 1;
}
