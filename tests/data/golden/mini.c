/* SPDX-License-Identifier: MIT
 *
 * mini.c - what sleeps in the golden files (make-golden): three small programs in
 * one, each stopped in the middle.
 */
#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum {
    TICKS = 6,
    TICK_US = 200000,
    PRIMES = 3000000,
};

/* --- jobs: two background processes and the pipes between them -------------------- */

static void writer(int out)
{
    char line[32];
    for (int i = 1; i <= TICKS; i++) {
        int n = snprintf(line, sizeof line, "tick %d\n", i);
        if (write(out, line, (size_t)n) != n)
            _exit(1);
        usleep(TICK_US);
    }
    _exit(3);
}

static void filter(int in, int out)
{
    char c;
    while (read(in, &c, 1) == 1) {
        c = (char)toupper((unsigned char)c);
        if (write(out, &c, 1) != 1)
            _exit(1);
    }
    _exit(4);
}

static int jobs(void)
{
    int a[2], b[2], status;
    char line[256];
    size_t have = 0;
    ssize_t n;
    if (pipe(a) < 0 || pipe(b) < 0)
        return 1;
    pid_t w = fork();
    if (w == 0) {
        close(a[0]), close(b[0]), close(b[1]);
        writer(a[1]);
    }
    pid_t f = fork();
    if (f == 0) {
        close(a[1]), close(b[0]);
        filter(a[0], b[1]);
    }
    close(a[0]), close(a[1]), close(b[1]);
    while ((n = read(b[0], line + have, 1)) == 1)
        if (line[have++] == '\n' || have == sizeof line) {
            fwrite(line, 1, have, stdout);
            fflush(stdout);
            have = 0;
        }
    waitpid(w, &status, 0);
    printf("writer %d\n", WEXITSTATUS(status));
    waitpid(f, &status, 0);
    printf("filter %d\n", WEXITSTATUS(status));
    return 5;
}

/* --- loop: computing, with open files and a timer ----------------------------------- */

static volatile sig_atomic_t rang;

static void on_alarm(int signo)
{
    (void)signo;
    rang = 1;
}

static int loop(void)
{
    struct itimerval t = {.it_value = {.tv_sec = 3}};
    char text[32] = "";
    unsigned count = 0, sum = 0;
    int gone = open("/tmp/gone", O_RDWR | O_CREAT | O_EXCL, 0600);
    int kept = open("/workspace/kept", O_RDWR | O_CREAT | O_APPEND, 0600);
    if (gone < 0 || kept < 0 || write(gone, "unlinked", 8) != 8 || write(kept, "one ", 4) != 4)
        return 1;
    unlink("/tmp/gone");
    lseek(gone, 2, SEEK_SET);
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &t, NULL);
    puts("begin");
    fflush(stdout);
    for (unsigned i = 2; i < PRIMES; i++) {
        unsigned d = 2;
        while (d * d <= i && i % d)
            d++;
        if (d * d > i)
            count++, sum = sum * 31 + i;
    }
    printf("%u primes, %08x\n", count, sum);
    fflush(stdout);
    while (!rang)
        pause();
    if (read(gone, text, sizeof text - 1) != 6 || write(kept, "two", 3) != 3)
        return 2;
    printf("rang; %s\n", text);
    return 0;
}

/* --- terminal: a line half typed --------------------------------------------------------- */

static int terminal(void)
{
    struct pollfd p = {.fd = 0, .events = POLLIN};
    struct termios t;
    char text[32] = "";
    printf("> ");
    fflush(stdout);
    int n = poll(&p, 1, 3000); /* a line is not ready: half of one does not count */
    printf("\npoll %d\n", n);
    fflush(stdout);
    if (tcgetattr(0, &t) < 0)
        return 1;
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    t.c_cc[VMIN] = 0;
    t.c_cc[VTIME] = 5;
    if (tcsetattr(0, TCSANOW, &t) < 0 || read(0, text, sizeof text - 1) < 0)
        return 1;
    printf("<%s>\n", text);
    return 6;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "jobs") == 0)
        return jobs();
    if (strcmp(what, "loop") == 0)
        return loop();
    return strcmp(what, "terminal") == 0 ? terminal() : 1;
}
