/* SPDX-License-Identifier: MIT
 *
 * Shells of this machine on the kernel: programs, pipelines, jobs, signals. */
#define TAP_ALARM_S 90
#include "tap.h"

#include "../lib/native_rig.h"

static struct nrig r;

static void start(void)
{
    static const char *const programs[] = {
        "/bin/bash",   "/bin/dash",    "/bin/true",    "/bin/cat",      "/bin/echo",
        "/bin/sleep",  "/bin/ls",      "/bin/mv",      "/bin/rm",       "/bin/mkdir",
        "/usr/bin/tr", "/usr/bin/wc",  "/usr/bin/seq", "/usr/bin/sort", "/usr/bin/head",
        "/bin/grep",   "/usr/bin/env", "/bin/sed"};
    nrig_start(&r);
    for (size_t i = 0; i < DZ_ARRAY_LEN(programs); i++)
        nrig_program(&r, programs[i]);
}

TEST(true_and_echo)
{
    start();
    NRIG_SAME(&r, NULL, "/bin/true");
    NRIG_SAME(&r, NULL, "/bin/echo", "hello", "world");
    NRIG_SAME(&r, "one\ntwo\n", "/bin/cat");
    nrig_stop(&r);
}

#define SH(text) NRIG_SAME(&r, NULL, "/bin/bash", "-c", text)
TEST(bash_pipelines)
{
    start();
    SH("echo hi");
    SH("echo hi | cat");
    SH("seq 1 1000 | tr 0-9 a-j | sort -r | head -n 3");
    SH("for i in 1 2 3; do echo $i; done | while read x; do echo \"<$x>\"; done");
    nrig_stop(&r);
}

TEST(bash_subshells)
{
    start();
    SH("(cd /; echo in $(pwd)); x=$(echo a; echo b); echo \"$x\"; exit 7");
    SH("f() { return 3; }; f; echo $?; (exit 5); echo $?; ! true; echo $?");
    SH("cat <<EOF\nhere $((6 * 7))\nEOF\ncat <<<string");
    SH("echo one >f; echo two >>f; cat f; mv f g; ls; rm g; [ -e g ] || echo gone");
    SH("cat <(echo from a pipe) 2>&1; echo a b c | while read -r x y; do echo \"$y\"; done");
    SH("env -i A=1 /bin/bash -c 'echo $A'; exec /bin/echo replaced");
    NRIG_SAME(&r, "read line; echo \"<$line>\"\nthe line\n", "/bin/dash");
    nrig_stop(&r);
}

TEST(bash_jobs)
{
    start();
    SH("true & p=$!; wait $p; echo $?; (exit 9) & wait $!; echo $?");
    SH("for i in 1 2 3; do (echo $i) >f$i & done; wait; cat f1 f2 f3");
    SH("sleep 100 & kill $!; wait $!; echo $?");
    SH("{ (kill -SEGV $BASHPID); echo $?; (kill -9 $BASHPID); echo $?; } 2>/dev/null");
    SH("seq 1 100000 | head -n 1; echo ${PIPESTATUS[0]}");
    nrig_stop(&r);
}

TEST(bash_traps)
{
    start();
    SH("trap 'echo got it' USR1; kill -USR1 $$; echo after; trap - USR1; kill -USR1 $$; echo never");
    SH("trap 'echo bye' EXIT; echo hello; exit 4");
    SH("trap 'echo term; exit 3' TERM; (kill $$) & while :; do true; done");
    SH("trap 'echo term; exit 3' TERM; (kill $$) & while :; do wait; done");
    SH("trap '' INT; kill -INT $$; echo ignored; trap 'n=$((n+1))' USR2; n=0; "
       "for i in 1 2 3 4 5; do kill -USR2 $$; done; echo $n");
    nrig_stop(&r);
}

/* Nothing of a machine that ends in the middle stays: programs that run, that wait, stopped ones.
 */
TEST(killed_in_the_middle)
{
    start();
    const char *const argv[] = {"/bin/bash", "-c",
                                "while :; do :; done & sleep 100 & (kill -STOP $BASHPID) & "
                                "echo begun",
                                NULL};
    CHECK_INT(nrig_run(&r, argv, NULL), 0);
    CHECK_STR(r.out, "begun\n");
    nrig_stop(&r);
}
