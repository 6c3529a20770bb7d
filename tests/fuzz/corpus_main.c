/* SPDX-License-Identifier: MIT
 *
 * corpus_main.c - runs a fuzzer's corpus without libFuzzer, as a TAP test.
 *
 * Each fuzzer is linked twice: with libFuzzer (`make fuzz`) and with this, so
 * that every input that was ever interesting is run by `make test`, under any
 * compiler and sanitizer. The corpus of fuzz_x.c is tests/fuzz/corpus/x/. Each
 * file is run in a child of its own: a crash or a hang (60 s) fails that file.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return 1;
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1); /* exact size: overreads are seen by ASan */
    if (!data || read(fd, data, size) != (ssize_t)size)
        return 1;
    (void)close(fd);
    alarm(60);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

static int run_in_child(const char *path)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        exit(run_file(path));
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return 1;
    if (WIFSIGNALED(status))
        printf("# killed by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

int main(int argc, char **argv)
{
    char dir[512], path[1024];
    const char *base = strrchr(argv[0], '/'), *name = strstr(base ? base : argv[0], "corpus_");
    if (argc > 1)
        (void)snprintf(dir, sizeof dir, "%s", argv[1]);
    else
        (void)snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s", name ? name + 7 : "");
    struct dirent **list;
    int n = scandir(dir, &list, NULL, alphasort), ran = 0, failed = 0;
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.') {
            (void)snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
            int bad = run_in_child(path);
            printf("%sok %d - %s\n", bad ? "not " : "", ++ran, list[i]->d_name);
            failed += bad;
        }
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    if (ran == 0) {
        printf("not ok 1 - %s holds no corpus\n", dir);
        ran = failed = 1;
    }
    printf("1..%d\n", ran);
    return failed ? 1 : 0;
}
