/* SPDX-License-Identifier: MIT
 *
 * /proc and /sys as native programs read them: what is not this machine's own is the same as on
 * this machine. */
#define TAP_ALARM_S 110
#include "tap.h"

#include <poll.h>

#include "../lib/native_rig.h"

static struct nrig r;

static void start(void)
{
    static const char *const programs[] = {
        "/bin/bash",     "/bin/cat",    "/bin/ls", "/usr/bin/nproc", "/bin/grep",
        "/usr/bin/head", "/usr/bin/tr", "/bin/rm", "/usr/bin/env",   "/usr/bin/sort"};
    nrig_start(&r);
    for (size_t i = 0; i < DZ_ARRAY_LEN(programs); i++)
        nrig_program(&r, programs[i]);
}
#define SH(text) NRIG_SAME(&r, NULL, "/bin/bash", "-c", text)

TEST(processors)
{
    start();
    SH("nproc; nproc --all; grep -c ^processor /proc/cpuinfo; cat /sys/devices/system/cpu/online "
       "/sys/devices/system/cpu/possible");
    SH("grep -E '^(processor|vendor_id|cpu family|model|stepping|siblings|core id|cpu cores|flags|"
       "apicid|initial apicid|clflush size|address sizes)' /proc/cpuinfo");
    SH("grep -c ^cpu /proc/stat");
    nrig_stop(&r);
}

TEST(a_process_tells_of_itself)
{
    start();
    SH("exec 9</dev/null; ls /proc/self/fd | cat >/dev/null; cd /; cat /proc/self/comm; "
       "tr '\\0' ' ' </proc/self/cmdline; read -ra s </proc/self/stat; echo ${#s[@]} ${s[1]}; "
       "read -ra s </proc/self/statm; echo ${#s[@]}");
    SH("grep -E '^(Name|Umask|TracerPid|Uid|Gid|Threads|SigPnd|ShdPnd|SigBlk|Seccomp|CapAmb|VmSwap|"
       "Cpus_allowed_list|Mems_allowed_list):' /proc/self/status");
    SH("head -n 1 /proc/self/limits; grep -c . /proc/self/limits; cat /proc/self/wchan "
       "/proc/self/loginuid /proc/self/oom_score_adj /proc/self/uid_map");
    SH("printf short >/proc/$$/comm; cat /proc/$$/comm /proc/$$/task/$$/comm; "
       "printf 'much longer than that' >/proc/self/task/$$/comm; cat /proc/$$/comm; "
       "grep Name /proc/$$/status");
    SH("cd /proc/$$; echo 300 >oom_score_adj; cat oom_score_adj; (cat /proc/self/oom_score_adj); "
       "printf 7 >oom_score_adj; cat oom_score_adj; for v in 1001 -1001 x 1x ''; do "
       "echo \"$v\" >oom_score_adj; done 2>/dev/null; cat oom_score_adj");
    SH("exec 7<>f; echo 12345 >&7; cd /proc/$$; grep pos fdinfo/7; ls fdinfo/7 fd/7; "
       "cat fdinfo/99; cd $OLDPWD; ls /proc/$$/task/1 2>/dev/null; rm f");
    SH("grep -c ' / / ' /proc/self/mountinfo; grep -E '^[^ ]+ /proc ' /proc/mounts | "
       "{ read x at type y; echo $at $type; }; cat /proc/swaps /proc/self/cgroup | grep -E '^(File|0::)'");
    SH("ls -d /sys/fs /sys/kernel /sys/devices/system/cpu/online; echo x >/sys/kernel/new; "
       "cd /sys/devices/system/cpu && pwd -P && cd .. && pwd -P && cd /sys/.. && pwd -P");
    SH("cat /sys/kernel/mm/transparent_hugepage/hpage_pmd_size; cat /proc/self/mem_is_none");
    nrig_stop(&r);
}

/* perl overwrites its arguments on the stack: with a shorter title, with one that needs the room of
 * the environment, and with one of a character. */
TEST(a_program_changes_its_title)
{
#define SHOW "open my $f, '<', qq(/proc/$$/$_) and print(map { s/\\0/|/gr } <$f>), print qq(\n)"
    start();
    nrig_program(&r, "/usr/bin/perl");
    NRIG_SAME(&r, NULL, "/usr/bin/env", "-i", "A=1", "B=two", "/usr/bin/perl", "-e",
              "$_ = 'cmdline'; " SHOW
              "; for my $title ('short', 'long' x 60, 'x') { $0 = $title; " SHOW
              " } for (qw(environ cmdline)) { " SHOW " }",
              "an argument", "and another");
    SH("cat /proc/self/environ | tr '\\0' '\n' | grep -Ev '^(PWD|_)=' | sort; exec 3</proc/self/cmdline; cat <&3");
    nrig_stop(&r);
#undef SHOW
}

/* By symlinks of a program and of its directory, by /proc/self/exe, renamed, and removed. */
TEST(a_program_finds_its_own_file)
{
    start();
    nrig_program(&r, "/usr/bin/readlink");
    nrig_program(&r, "/usr/bin/ln");
    nrig_program(&r, "/usr/bin/cp");
    nrig_program(&r, "/usr/bin/mv");
    SH("cp /usr/bin/readlink own && cp /bin/bash sh; "
       "ln own second; ln -s own link; ln -s . dir; cd -P .; "
       "for name in ./own ./second ./link dir/link $PWD/dir/link $PWD//./own; do "
       "out=$($name /proc/self/exe); echo \"${out#\"$PWD\"}\"; done; "
       "./sh -c 'exec /proc/self/exe -c \"readlink /proc/\\$\\$/exe; :\"' | { read x; echo ${x##*/}; }; "
       "$PWD/sh -c 'mv sh new; readlink /proc/$$/exe; mv new sh; rm sh; readlink /proc/$$/exe; :' | "
       "while read x; do echo ${x##*/}; done; "
       "rm -f own second link dir");
    nrig_stop(&r);
}

/* Numbers that this machine has by another name. */
TEST(sizes_are_in_pages_and_maps_have_names)
{
    static const char *const argv[] = {
        "/bin/bash", "-c",
        "read -ra m </proc/self/statm; read -ra s </proc/self/stat; "
        "echo $((m[0] * 4096 == s[22])) $((m[1] > 10 && m[1] < 10000)) $((m[0] > m[1])); "
        "while read a p o d i name; do echo $name; done </proc/self/maps | grep -F [; "
        "while IFS=: read k v; do [ $k = wchar ] && w=$v; done </proc/$$/io; echo $((w > 0)); "
        "cat /proc/version; ls /sys",
        NULL};
    start();
    CHECK_INT(nrig_run(&r, argv, NULL), 0);
    CHECK_STR(r.out, "1 1 1\n[heap]\n[vvar]\n[vdso]\n[stack]\n1\n"
                     "Linux version 6.1.0-doze (doze) #1 SMP doze\ndevices\nfs\nkernel\n");
    nrig_stop(&r);
}

TEST(threads_and_the_auxiliary_vector)
{
    static const char text[] =
        "import threading, os, struct, time\n"
        "a = open('/proc/self/auxv', 'rb').read()\n"
        "v = dict(struct.iter_unpack('QQ', a))\n"
        "print(v[6], v[17], v[16], v[51] > 1000, v[11], v[23], 0 in v, 33 in v)\n"
        "go = threading.Event(); at = []\n"
        "def work():\n"
        "    at.append(threading.get_native_id())\n"
        "    open('/proc/thread-self/comm', 'w').write('worker')\n"
        "    at.append(open('/proc/thread-self/comm').read())\n"
        "    at.append(os.readlink('/proc/thread-self') == '%d/task/%d' % (os.getpid(), at[0]))\n"
        "    go.wait()\n"
        "t = threading.Thread(target=work); t.start()\n"
        "while len(at) < 3: time.sleep(0.001)\n"
        "n = sorted(map(int, os.listdir('/proc/self/task')))\n"
        "print(n == [os.getpid(), at[0]], at[1:], os.stat('/proc/self/task').st_nlink)\n"
        "s = open('/proc/self/task/%d/stat' % at[0]).read().split()\n"
        "print(int(s[0]) == at[0], s[1], s[2], s[19], open('/proc/self/comm').read())\n"
        "d = dict(l.split(':', 1) for l in open('/proc/self/task/%d/status' % at[0]))\n"
        "print(int(d['Pid']) == at[0], int(d['Tgid']) == os.getpid(), d['Name'].strip())\n"
        "print(sorted(set(os.listdir('/proc/self/task/%d' % at[0])) & "
        "{'stat', 'status', 'comm', 'maps', 'exe', 'cwd', 'limits', 'mounts'}))\n"
        "go.set(); t.join()\n"
        "while os.path.exists('/proc/self/task/%d' % at[0]): time.sleep(0.001)\n"
        "print(os.listdir('/proc/self/task') == [str(os.getpid())], os.stat('/proc/self/task').st_nlink)\n"
        "try: open('/proc/self/task/%d/comm' % at[0], 'w')\n"
        "except FileNotFoundError as e: print(e.strerror)\n";
    nrig_start(&r);
    nrig_program(&r, "/usr/bin/python3.11");
    nrig_tree(&r, "/usr/lib/python3.11", NULL);
    NRIG_SAME(&r, NULL, "/usr/bin/python3.11", "-c", text);
    nrig_stop(&r);
}

/* Who waits for the runner's descriptor would not sleep. */
TEST(after_the_last_process_the_descriptor_is_silent)
{
    static const char *const argv[] = {"/bin/bash", "-c", "(exit 3) | :; exit 4", NULL};
    struct dz_err err = {0};
    int rounds = 0;
    nrig_start(&r);
    nrig_program(&r, "/bin/bash");
    CHECK_INT(nrig_run(&r, argv, NULL), 4 << 8);
    for (; rounds < 100; rounds++) {
        struct pollfd p = {.fd = dz_linux_fd(r.l), .events = POLLIN};
        CHECK_INT(dz_kernel_run(r.k, INT64_MAX, &err), DZ_KERNEL_IDLE);
        if (poll(&p, 1, 300) == 0)
            break;
    }
    CHECK(rounds < 100);
    nrig_stop(&r);
}
