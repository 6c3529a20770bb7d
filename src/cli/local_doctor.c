/* SPDX-License-Identifier: MIT
 *
 * `doze doctor`: what this machine offers and what that means for doze. os_probe finds the facts;
 * this file has the sentences.
 */
#include "base/json.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/cli_env.h"
#include "cli/cli_term.h"
#include "cli/local_config.h"
#include "daemon/daemon.h"
#include "os/os_probe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

/* For each probe: whether it is required, and the meaning of each answer. */
static const struct feature {
    bool required;
    const char *yes;
    const char *limited;
    const char *no;
} features[DZ_OS_PROBE_COUNT] = {
    [DZ_OS_PROBE_SECCOMP] =
        {true, "A sandbox's process can be limited to the few system calls that it needs.", "",
         "The system calls of a sandbox's process cannot be limited, so none is started."},
    [DZ_OS_PROBE_PIDFD] =
        {true, "doze can watch and end processes without confusing one with another.", "",
         "doze cannot supervise its processes. Linux 5.4 or newer is needed, and in a container a "
         "profile that allows clone3."},
    [DZ_OS_PROBE_MEMFD] =
        {true, "Processes can share data in memory that is sealed against changes.", "",
         "doze cannot hand data to its processes. Linux 3.17 or newer is needed."},
    [DZ_OS_PROBE_LOCKS] =
        {true, "Only one process at a time can use a sandbox's file.", "",
         "Two processes could write one sandbox's file. Put the data directory on a local disk "
         "that you may write to (DOZE_DATA)."},
    [DZ_OS_PROBE_RESERVE] = {true, "The memory of a sandboxed program can grow without moving.", "",
                             "Programs cannot reserve address space. Lift its limit (ulimit -v "
                             "unlimited) and set vm.overcommit_memory to 0 or 1."},
    [DZ_OS_PROBE_USERFAULTFD] =
        {false, "A waking sandbox can run before all of its memory is back.",
         "A waking sandbox can run before all of its memory is back, but doze finds changed pages "
         "by comparing memory. Linux 6.7 or newer tracks them.",
         "A sandbox reads all of its memory before it wakes, which is slower for large ones."},
    [DZ_OS_PROBE_PAGEMAP_SCAN] =
        {false, "Suspending writes only the pages that changed, and reads no others.", "",
         "Suspending compares all memory to find the pages that changed, which is slower for "
         "large sandboxes. Linux 6.7 or newer is needed."},
    [DZ_OS_PROBE_LANDLOCK] =
        {false,
         "A second fence stands between a sandbox's process and the host's files and network.",
         "A second fence stands between a sandbox's process and the host's files; only seccomp "
         "protects the network.",
         "Only seccomp stands between a sandbox's process and the host's files."},
    [DZ_OS_PROBE_USER_NS] =
        {false, "Sandboxes get namespaces of their own, even if doze does not run as root.", "",
         "Unless doze runs as root, a sandbox's process shares the host's namespaces, confined by "
         "the other fences. Set kernel.unprivileged_userns_clone to 1 or "
         "kernel.apparmor_restrict_unprivileged_userns to 0, where the host has them; in a "
         "container, use a profile that allows unshare."},
    [DZ_OS_PROBE_JAIL] =
        {true, "Every fence that doze supports confines a sandbox's process.",
         "The system call filter and these fences confine a sandbox's process; the setting "
         "cells.fences can require more, and then no sandbox starts without them.",
         "A sandbox's process cannot be jailed, so none is started."},
    [DZ_OS_PROBE_USERS] =
        {false, "A daemon that runs as this user gives each tenant a user id of its own.", "",
         "The processes of all tenants run as the daemon's user, separated only by their jails. A "
         "daemon that runs as root gives each tenant a user id of its own (setting cells.uids)."},
    [DZ_OS_PROBE_NOTIFY] =
        {false, "The processes of native Linux programs start others only when doze says so.", "",
         "Native Linux programs (images of kind linux) cannot run. Linux 5.9 or newer is needed, "
         "and in a container a profile that allows seccomp."},
    [DZ_OS_PROBE_MEMORY_EXEC] =
        {false, "The processes of native Linux programs begin as a program in memory.", "",
         "Native Linux programs (images of kind linux) cannot run. Set vm.memfd_noexec to 0 or 1."},
    [DZ_OS_PROBE_PEER] =
        {false, "doze can reach the memory of native Linux programs.", "",
         "Native Linux programs (images of kind linux) cannot run. Set kernel.yama.ptrace_scope to "
         "0 or 1; in a container, use a profile that allows process_vm_readv and "
         "process_vm_writev."},
    [DZ_OS_PROBE_MAPS] =
        {false, "A native Linux program may have as many mappings as doze promises.",
         "A native Linux program with more mappings than this is killed. Set vm.max_map_count to "
         "65530 or more.",
         "How many mappings a native Linux program may have is not known."},
    [DZ_OS_PROBE_PIDS] =
        {false, "Thousands of sandboxes and native Linux programs can run at once.",
         "This bounds the sandboxes that are awake and the processes and threads of native Linux "
         "programs together. Raise it: TasksMax= in the unit, ulimit -u, kernel.pid_max, or "
         "--pids-limit of the container.",
         ""},
    [DZ_OS_PROBE_PROFILE] =
        {false, "No container profile refuses a system call that doze uses.",
         "Features that need the refused calls are missing; other lines name them. Start the "
         "container with a profile that allows them (docker run --security-opt seccomp=FILE).",
         "Whether a container's profile refuses calls is not known."},
    [DZ_OS_PROBE_CGROUP] =
        {false,
         "Memory, processes and CPU of all sandboxes together can be limited, and the memory of "
         "each (cells.memory_beside).",
         "Only the available controllers can limit all sandboxes together; each sandbox also has "
         "limits of its own. Under systemd, give doze a unit with Delegate=yes.",
         "Each sandbox can be limited, but not all of them together."},
    [DZ_OS_PROBE_NOFILE] =
        {false, "Thousands of sandboxes can be awake at once.",
         "The limit bounds how many sandboxes can be awake (each takes a few descriptors). "
         "Raise it with LimitNOFILE= in the unit, or in /etc/security/limits.conf.",
         ""},
    [DZ_OS_PROBE_REFLINK] =
        {false, "Freezing, copying and cloning a large sandbox takes neither time nor space.", "",
         "A large sandbox is copied byte by byte when it is frozen or cloned. XFS and Btrfs can "
         "share its blocks instead."},
    [DZ_OS_PROBE_FUSE] = {false, "Not used: no kind of sandbox needs it.", "",
                          "Nothing is lost: no kind of sandbox needs it."},
    [DZ_OS_PROBE_KVM] = {false, "Not used: no kind of sandbox runs in a virtual machine.", "",
                         "Nothing is lost: no kind of sandbox runs in a virtual machine."},
};

enum {
    CLOCK_S = 60, /* tolerable difference to the clock of a bucket's server */
};

struct report {
    struct dz_os_finding findings[DZ_OS_PROBE_COUNT];
    struct utsname uname;
    char data_dir[DZ_PATH_MAX];
    int missing; /* required and missing */
    int lesser;  /* limited, or missing and not required */
    struct {     /* the cold storage, if cold.url is set */
        bool asked;
        enum dz_os_answer answer;
        char detail[512];
        const char *meaning;
    } cold;
};

static const char *meaning(size_t id, const struct dz_os_finding *f)
{
    const struct feature *feature = &features[id];
    const char *text = f->answer == DZ_OS_YES       ? feature->yes
                       : f->answer == DZ_OS_LIMITED ? feature->limited
                                                    : feature->no;
    return text[0] ? text : feature->no[0] ? feature->no : feature->limited;
}

/* The directory itself, or the nearest one above it that exists: probing must
 * not create anything. */
static void existing_directory(const char *path, char ret_path[static DZ_PATH_MAX])
{
    struct stat st;
    (void)snprintf(ret_path, DZ_PATH_MAX, "%s", path);
    while (stat(ret_path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        char *slash = strrchr(ret_path, '/');
        if (!slash || slash == ret_path) {
            (void)snprintf(ret_path, DZ_PATH_MAX, "%s", slash ? "/" : ".");
            break;
        }
        *slash = '\0';
    }
}

static void examine(struct report *r)
{
    char dir[DZ_PATH_MAX];
    existing_directory(r->data_dir, dir);
    (void)uname(&r->uname);
    for (size_t i = 0; i < DZ_OS_PROBE_COUNT; i++) {
        struct dz_os_finding *f = &r->findings[i];
        dz_os_probe((enum dz_os_probe_id)i, dir, f);
        if (f->answer == DZ_OS_NO && features[i].required)
            r->missing++;
        else if (f->answer != DZ_OS_YES)
            r->lesser++;
    }
}

static bool cold_works(const struct report *r)
{
    return !r->cold.asked || r->cold.answer != DZ_OS_NO;
}

static void examine_cold(struct report *r, const struct dz_config *config)
{
    struct dz_blobs_place place = dz_daemon_cold(config);
    struct dz_blobs_probed probed;
    struct dz_err why = {0};
    char url[256];
    if (!place.url[0] || strcmp(config->doze_data, r->data_dir) != 0)
        return;
    (void)snprintf(url, sizeof url, "%.*s", (int)strcspn(place.url, "?"), place.url);
    place.s3.tries = 2;
    r->cold.asked = true;
    if (dz_blobs_probe(&place, &probed, &why) < 0) {
        r->cold.answer = DZ_OS_NO;
        (void)snprintf(r->cold.detail, sizeof r->cold.detail, "%s", why.msg);
        r->cold.meaning =
            "Sandboxes cannot be frozen or archived, and those that are cannot be woken.";
        return;
    }
    bool clock = llabs(probed.clock_ahead_s) > CLOCK_S;
    r->cold.answer = clock ? DZ_OS_LIMITED : DZ_OS_YES;
    (void)snprintf(r->cold.detail, sizeof r->cold.detail,
                   "%s: an object was written, read, listed and removed in %" PRId64
                   " ms; this machine's clock is %lld s %s the server's",
                   url, probed.us / 1000, llabs(probed.clock_ahead_s),
                   probed.clock_ahead_s < 0 ? "behind" : "ahead of");
    r->cold.meaning =
        clock ? "doze uses the server's time for its requests, but set this machine's clock."
              : "Sandboxes can be frozen and archived there.";
}

static void print_line(struct dz_cli *c, size_t mark, const char *name, const char *text,
                       const char *means)
{
    static const struct {
        const char *word;
        enum dz_cli_style style;
    } marks[] = {{"missing", DZ_CLI_RED},
                 {"no", DZ_CLI_YELLOW},
                 {"partly", DZ_CLI_YELLOW},
                 {"yes", DZ_CLI_GREEN}};
    const size_t indent = 10;
    DZ_AUTO(dz_buf_release) struct dz_buf detail = DZ_BUF_INIT(DZ_LINE_MAX);

    dz_cli_escape(&detail, dz_str(text)); /* it may name the data directory */
    fprintf(c->out, "%s%-*s%s", dz_cli_sgr(c->out_color, marks[mark].style), (int)indent,
            marks[mark].word, dz_cli_sgr_end(c->out_color, marks[mark].style));
    fprintf(c->out, "%s%s%s: ", dz_cli_sgr(c->out_color, DZ_CLI_BOLD), name,
            dz_cli_sgr_end(c->out_color, DZ_CLI_BOLD));
    dz_cli_wrap(c->out, detail.p, indent + strlen(name) + 2, indent, c->width);
    fprintf(c->out, "%*s", (int)indent, "");
    dz_cli_wrap(c->out, means, indent, indent, c->width);
}

static void print_feature(struct dz_cli *c, size_t id, const struct dz_os_finding *f)
{
    size_t mark = f->answer == DZ_OS_NO ? !features[id].required : (size_t)f->answer + 1;
    print_line(c, mark, dz_os_probe_name((enum dz_os_probe_id)id), f->detail, meaning(id, f));
}

static void print_head(struct dz_cli *c, const struct report *r)
{
    DZ_AUTO(dz_buf_release) struct dz_buf dir = DZ_BUF_INIT(DZ_LINE_MAX);
    dz_cli_escape(&dir, dz_str(r->data_dir));
    fprintf(c->out, "doze %s on %s %s, %s; data in %s\n\n", DZ_VERSION, r->uname.sysname,
            r->uname.release, r->uname.machine, dir.p);
}

static void print_text(struct dz_cli *c, const struct report *r)
{
    if (!c->quiet)
        print_head(c, r);
    for (size_t i = 0; i < DZ_OS_PROBE_COUNT; i++)
        if (!c->quiet || r->findings[i].answer != DZ_OS_YES)
            print_feature(c, i, &r->findings[i]);
    if (r->cold.asked && (!c->quiet || r->cold.answer != DZ_OS_YES))
        print_line(c, r->cold.answer == DZ_OS_NO ? 0 : (size_t)r->cold.answer + 1, "cold storage",
                   r->cold.detail, r->cold.meaning);
    if (c->quiet)
        return;
    fputc('\n', c->out);
    if (r->missing > 0)
        fprintf(c->out, "doze cannot run here: %d of the features that it requires %s missing.\n",
                r->missing, r->missing == 1 ? "is" : "are");
    else if (r->lesser > 0)
        fprintf(c->out,
                "doze can run here; the lines above say what missing and limited features cost.\n");
    else
        fprintf(c->out, "doze can run here, with every feature that it can use.\n");
    if (!cold_works(r))
        fprintf(c->out, "Its cold storage cannot be used.\n");
}

static int print_json(struct dz_cli *c, const struct report *r, struct dz_err *err)
{
    static const char *const answers[] = {"no", "limited", "yes"};
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_bool(&j, "ok", r->missing == 0 && cold_works(r));
    dz_json_put_strz(&j, "version", DZ_VERSION);
    dz_json_put_strz(&j, "kernel", r->uname.release);
    dz_json_put_strz(&j, "machine", r->uname.machine);
    dz_json_put_strz(&j, "data_dir", r->data_dir);
    dz_json_key(&j, "features");
    dz_json_array(&j);
    for (size_t i = 0; i < DZ_OS_PROBE_COUNT; i++) {
        const struct dz_os_finding *f = &r->findings[i];
        dz_json_object(&j);
        dz_json_put_strz(&j, "key", dz_os_probe_key((enum dz_os_probe_id)i));
        dz_json_put_strz(&j, "name", dz_os_probe_name((enum dz_os_probe_id)i));
        dz_json_put_strz(&j, "status", answers[f->answer]);
        dz_json_put_bool(&j, "required", features[i].required);
        dz_json_put_strz(&j, "detail", f->detail);
        dz_json_put_strz(&j, "errno", f->sys ? strerrorname_np(f->sys) : NULL);
        dz_json_put_strz(&j, "meaning", meaning(i, f));
        dz_json_end(&j);
    }
    dz_json_end(&j);
    if (r->cold.asked) {
        dz_json_key(&j, "cold");
        dz_json_object(&j);
        dz_json_put_strz(&j, "status", answers[r->cold.answer]);
        dz_json_put_strz(&j, "detail", r->cold.detail);
        dz_json_put_strz(&j, "meaning", r->cold.meaning);
        dz_json_end(&j);
    }
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    struct report r = {0};
    struct dz_config config;
    int rc = dz_cli_data_dir(dz_cli_value(c, "data"), r.data_dir, err);
    if (rc == 0)
        rc = dz_cli_config(c, false, &config, err);
    if (rc < 0)
        return rc;
    (void)fflush(c->out); /* the probes fork */
    examine(&r);
    examine_cold(&r, &config);
    dz_config_release(&config);
    if (c->json)
        rc = print_json(c, &r, err);
    else
        print_text(c, &r);
    if (rc < 0)
        return rc;
    return r.missing > 0 || !cold_works(&r) ? DZ_EXIT_FAILURE : DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_doctor = {
    .name = "doctor",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "check whether and how well doze runs on this machine",
    .args = "",
    .options =
        (const struct dz_cli_option[]){
            {"data", 'd', "DIR", "check this data directory instead of DOZE_DATA"},
            DZ_CLI_OPTION_CONFIG,
            DZ_CLI_OPTION_JSON,
            {"quiet", 'q', NULL, "show only what is missing or limited"},
            DZ_CLI_OPTION_END,
        },
    .help = "Tries each kernel feature on a small scale in a separate process and leaves\n"
            "nothing behind. The answer is yes, partly, no, or missing (no, and doze\n"
            "requires it). Exits with 1 if something required is missing.\n"
            "\n"
            "Run it as the user who will run doze, because root has more rights.\n"
            "\n"
            "If cold.url is set for this data directory, a small object is written there,\n"
            "read, listed and removed, and the clocks are compared; exits with 1 if that\n"
            "fails.\n",
    .run = run,
};
