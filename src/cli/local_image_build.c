/* SPDX-License-Identifier: MIT
 *
 * `doze image build`, `snapshot`, `import`, `export`.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/cli_progress.h"
#include "cli/cli_remote.h"
#include "cli/cli_signal.h"
#include "cli/cli_term.h"
#include "cli/local_cell.h"
#include "cli/local_dockerfile.h"
#include "cli/local_image.h"
#include "db/db.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OUTPUT_LINES = 40, /* bytes of a failed tool's output */
    OUTPUT_MAX = 1 << 16,
};

struct building {
    struct dz_cli *c;
    struct dz_cli_progress progress;
    bool shown;
    char what[256];
};

static void end_step(struct building *b)
{
    if (b->shown)
        dz_cli_progress_end(&b->progress);
    b->shown = false;
}

static void on_status(void *arg, enum dz_image_status status)
{
    struct building *b = arg;
    end_step(b);
    if (status != DZ_IMAGE_FAILED)
        dz_cli_note(b->c, "%s", dz_image_status_text(status));
}

static void on_step(void *arg, const char *what, uint64_t done, uint64_t total)
{
    struct building *b = arg;
    end_step(b);
    (void)snprintf(b->what, sizeof b->what, "%s", what);
    dz_cli_progress_start(&b->progress, b->c, b->what, total, DZ_CLI_COUNT);
    dz_cli_progress_at(&b->progress, done);
    b->shown = true;
}

static void on_bytes(void *arg, const char *what, uint64_t done, uint64_t total)
{
    struct building *b = arg;
    if (!b->shown || strcmp(b->what, what) != 0) {
        end_step(b);
        (void)snprintf(b->what, sizeof b->what, "%s", what);
        dz_cli_progress_start(&b->progress, b->c, b->what, total, DZ_CLI_BYTES);
        b->shown = true;
    }
    dz_cli_progress_at(&b->progress, done);
}

/* Print the output of the tool that failed line by line, so that the cause is visible without the
 * log. */
static void on_output(void *arg, struct dz_str text)
{
    struct building *b = arg;
    struct dz_str line;
    end_step(b);
    for (int n = 0; dz_str_split(&text, '\n', &line); n++) {
        DZ_AUTO(dz_buf_release) struct dz_buf shown = DZ_BUF_INIT(OUTPUT_MAX);
        if (n == OUTPUT_LINES) {
            fprintf(b->c->err, "  ... (the log has more)\n");
            break;
        }
        dz_cli_escape(&shown, line);
        fprintf(b->c->err, "  %s\n", shown.p);
    }
}

static bool on_stop(void *arg)
{
    (void)arg;
    return dz_cli_interrupted();
}

/* The directory of doze-cc and its parts: beside the program, in a build or installed. */
static const char *guest_dir(struct dz_cli *c, char out[static PATH_MAX])
{
    static const char *const places[] = {"../guest-sys", "../share/doze/guest"};
    const char *given = dz_cli_value(c, "guest");
    char exe[PATH_MAX], cc[PATH_MAX + 16];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (!given)
        given = getenv("DOZE_GUEST");
    if (given && given[0])
        return realpath(given, out);
    if (n <= 0)
        return NULL;
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < DZ_ARRAY_LEN(places); i++) {
        char place[PATH_MAX + 32];
        (void)snprintf(place, sizeof place, "%s/%s", exe, places[i]);
        if (!realpath(place, out))
            continue;
        (void)snprintf(cc, sizeof cc, "%s/doze-cc", out);
        if (access(cc, X_OK) == 0)
            return out;
    }
    return NULL;
}

static int print_result(struct dz_cli *c, struct dz_image_store *s, const char *sha256,
                        struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_image image;
    struct dz_json j;
    char ref[DZ_IMAGE_REF];
    if (!c->json) {
        fprintf(c->out, "%s\n", dz_image_ref(sha256, ref));
        return 0;
    }
    int rc = dz_image_load(s, sha256, &image, err);
    if (rc < 0)
        return rc;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_strz(&j, "id", dz_image_ref(sha256, ref));
    dz_json_put_strz(&j, "sha256", sha256);
    dz_json_put_strz(&j, "status", dz_image_status_text(DZ_IMAGE_DEPLOYED));
    dz_json_put_u64(&j, "size_bytes", image.bytes + image.pack_bytes);
    dz_json_put_strz(&j, "kind", dz_image_kind_text(image.kind));
    dz_json_put_u64(&j, "machine_bytes", image.machine_bytes);
    dz_json_end(&j);
    dz_image_release(&image);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

/* --- build --------------------------------------------------------------------------------- */

/* Name the log after the error. */
static void show_log(struct dz_cli *c, const struct dz_image_store *s, const char *name)
{
    DZ_AUTO(dz_buf_release) struct dz_buf path = DZ_BUF_INIT(DZ_LINE_MAX);
    if (name && dz_image_log(s, name, &path, NULL) == 0 && access(path.p, R_OK) == 0)
        dz_cli_note(c, "the log is %s", path.p);
}

static bool is_directory(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The operand is the directory that COPY takes files from; the Dockerfile may be elsewhere. */
static int build_dockerfile(struct dz_cli *c, const struct dz_image_build *how, struct building *b,
                            struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    char sha256[DZ_SHA256_HEX], inside[PATH_MAX];
    const char *file = dz_cli_value(c, "file");
    if (!how->recipe || !how->name)
        return dz_cli_usage(c, err,
                            "a Dockerfile requires a directory with its files, and a name: "
                            "-t NAME[:TAG]");
    if (how->from || how->from_dir || how->files || how->confined)
        return dz_cli_usage(c, err,
                            "a Dockerfile cannot be combined with --from, --from-dir, --files or "
                            "--confined");
    if (!file && snprintf(inside, sizeof inside, "%s/Dockerfile", how->recipe) >= PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path %.80s... is too long", how->recipe);
    int rc = dz_cli_files_only(c, err);
    if (rc == 0)
        rc = dz_cli_image_store(&s, err);
    if (rc < 0)
        return rc;
    dz_cli_catch_interrupts();
    struct dz_image_build docker = *how;
    docker.recipe = file ? file : inside;
    docker.from_dir = how->recipe;
    rc = dz_cli_dockerfile_build(c, s, &docker, sha256, err);
    end_step(b);
    if (rc < 0 && rc != DZ_ECANCELED)
        show_log(c, s, how->name);
    return rc != 0 ? rc : print_result(c, s, sha256, err);
}

static int build(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    char sha256[DZ_SHA256_HEX], guest[PATH_MAX];
    struct building b = {.c = c};
    const struct dz_image_build how = {.recipe = c->argc ? c->argv[0] : NULL,
                                       .from_dir = dz_cli_value(c, "from-dir"),
                                       .from = dz_cli_value(c, "from"),
                                       .name = dz_cli_value(c, "tag"),
                                       .guest = guest_dir(c, guest),
                                       .files = dz_cli_value(c, "files"),
                                       .confined = dz_cli_flag(c, "confined"),
                                       .fresh = dz_cli_flag(c, "fresh"),
                                       .status = on_status,
                                       .step = on_step,
                                       .output = on_output,
                                       .stop = on_stop,
                                       .arg = &b};
    if (dz_cli_value(c, "file") || is_directory(how.recipe))
        return build_dockerfile(c, &how, &b, err);
    if (dz_cli_value(c, "build-arg"))
        return dz_cli_usage(c, err, "--build-arg is for a Dockerfile: -f FILE");
    if (!how.recipe == !how.from_dir)
        return dz_cli_usage(c, err, "give either a RECIPE or --from-dir");
    if (how.from_dir && !how.name)
        return dz_cli_usage(c, err, "--from-dir requires a name: -t NAME[:TAG]");
    if (how.files && (!how.recipe || !how.name))
        return dz_cli_usage(c, err,
                            "--files requires a RECIPE in the archive, and a name: -t NAME[:TAG]");
    if (how.confined && (how.from_dir || (how.from && strchr(how.from, '/'))))
        return dz_cli_usage(c, err, "--confined cannot be used with a path of this machine");
    int rc = dz_cli_files_only(c, err);
    if (rc == 0)
        rc = dz_cli_image_store(&s, err);
    if (rc < 0)
        return rc;
    dz_cli_catch_interrupts();
    rc = dz_image_build(s, &how, sha256, err);
    end_step(&b);
    if (rc < 0 && rc != DZ_ECANCELED)
        show_log(c, s, how.name);
    return rc < 0 ? rc : print_result(c, s, sha256, err);
}

const struct dz_cli_command dz_cmd_image_build = {
    .name = "image build",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "build an image from a recipe, a Dockerfile or a directory",
    .args = "[RECIPE|DIR]",
    .min_args = 0,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"tag", 't', "NAME[:TAG]", "tag the image; overrides the recipe"},
            {"file", 'f', "FILE", "build this Dockerfile with the files of DIR"},
            {"build-arg", 0, "K=V", "set an ARG of the Dockerfile (repeatable)"},
            {"from", 0, "IMAGE", "build on this image or disk file"},
            {"from-dir", 0, "DIR", "use DIR as the root of the image, without a recipe"},
            {"files", 0, "ARCHIVE", "unpack this tar or zip first; it holds RECIPE and its files"},
            {"confined", 0, NULL, "read nothing else from this machine and run nothing on it"},
            {"guest", 0, "DIR", "compile with the doze-cc in DIR (default: DOZE_GUEST)"},
            {"fresh", 0, NULL, "fetch and compile everything again; do not use the cache"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "docs/guide/images.md describes recipes. Packages are fetched by the pip, npm,\n"
            "cargo and apt of this machine, in the exact version and, where the recipe gives\n"
            "one, with the exact hash. Fetched and compiled files are cached, so an\n"
            "interrupted build continues where it stopped. Prints the image's id.\n\n"
            "With -f, or if the operand is a directory, a Dockerfile is built. Its RUN steps\n"
            "run in a sandbox without a network, never on this machine. Several stages, ADD\n"
            "of URLs and archives, HEALTHCHECK, ONBUILD and VOLUME are not supported.\n",
    .run = build,
};

/* --- lock ------------------------------------------------------------------------------------ */

static int lock(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    struct building b = {.c = c};
    const struct dz_image_build how = {
        .recipe = c->argv[0], .output = on_output, .stop = on_stop, .arg = &b};
    int rc = dz_cli_files_only(c, err);
    if (rc == 0)
        rc = dz_cli_image_store(&s, err);
    dz_cli_catch_interrupts();
    return rc < 0 ? rc : dz_image_relock(s, &how, err);
}

const struct dz_cli_command dz_cmd_image_lock = {
    .name = "image lock",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "choose the versions of a recipe's Debian packages",
    .args = "RECIPE",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Asks the apt of this machine for the packages that the section [apt FILE] of\n"
            "RECIPE requires, and writes FILE: their exact versions and hashes, which `doze\n"
            "image build` then fetches. Nothing is installed, and no privilege is needed.\n"
            "Run it again to use newer versions, or if the archive no longer has a locked\n"
            "one.\n",
    .run = lock,
};

/* --- snapshot ------------------------------------------------------------------------------- */

static int snapshot_of(struct dz_cli *c, struct dz_image_store *s, const struct dz_cli_cell *cell,
                       const struct dz_image *image, struct dz_err *err)
{
    char sha256[DZ_SHA256_HEX];
    struct building b = {.c = c};
    struct dz_db_files files = DZ_DB_FILES_NONE;
    DZ_AUTO(dz_fd_close) int pack = -1;
    const struct dz_image_build how = {.name = dz_cli_value(c, "tag"),
                                       .status = on_status,
                                       .step = on_step,
                                       .stop = on_stop,
                                       .arg = &b};
    int rc = dz_db_files_open(&files, c->argv[0], DZ_DB_FILES_WRITE, err);
    if (rc == 0)
        rc = dz_image_open_pack(s, image, &pack, err);
    const struct dz_image_snapshot from = {.label = c->argv[0],
                                           .db_fd = files.db_fd,
                                           .wal_fd = files.wal_fd,
                                           .image_fd = cell->start.image_fd,
                                           .pack_fd = pack,
                                           .image_sha256 = cell->start.image_sha256,
                                           .image = image,
                                           .allow_empty = dz_cli_flag(c, "allow-empty")};
    dz_cli_catch_interrupts();
    if (rc == 0)
        rc = dz_image_snapshot(s, &from, &how, sha256, err);
    end_step(&b);
    dz_db_files_close(&files);
    return rc < 0 ? rc : print_result(c, s, sha256, err);
}

static int snapshot(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    DZ_AUTO(dz_cli_cell_release) struct dz_cli_cell cell = DZ_CLI_CELL_INIT;
    DZ_AUTO(dz_image_release) struct dz_image image = {0};
    if (!dz_cli_value(c, "tag"))
        return dz_cli_usage(c, err, "the image needs a name: -t NAME[:TAG]");
    int rc = dz_cli_files_only(c, err);
    if (rc == 0)
        rc = dz_cli_image_store(&s, err);
    if (rc == 0)
        rc = dz_cli_cell_root(&cell, c, c->argv[0], &image, err);
    if (rc == 0)
        rc = snapshot_of(c, s, &cell, &image, err);
    return rc < 0 ? dz_wrap(err, rc, "make an image of %s", c->argv[0]) : rc;
}

const struct dz_cli_command dz_cmd_image_snapshot = {
    .name = "image snapshot",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "make an image from a sleeping sandbox with its processes",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"tag", 't', "NAME[:TAG]", "tag the image"},
            {"image", 'I', "IMAGE", "the image below the disk (default: the one that FILE names)"},
            {"base", 'b', "ROOT", "the read-only disk below it (default: DOZE_BASE)"},
            {"allow-empty", 0, NULL,
             "allow a FILE without running programs: an image of its files"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END,
        },
    .help = "Every sandbox started from the image resumes where FILE sleeps: start Python,\n"
            "import the slow modules, suspend it, and make an image of it. Its memory is\n"
            "prepared once and shared by all of them; each pays only for what it changes.\n"
            "`doze run --image NAME` without a COMMAND resumes; with one, it runs the\n"
            "command over the image's files. In a sandbox of the daemon the program is the\n"
            "command `main`: `doze attach SANDBOX main`. FILE is not changed and must not be\n"
            "running. A FILE whose program has ended is refused.\n\n"
            "Other settings come from the image below. Prints the new image's id.\n",
    .run = snapshot,
};

/* --- import --------------------------------------------------------------------------------- */

/* An OCI image is built; a file that `doze image export` wrote is taken as it is. */
static bool is_oci(int fd)
{
    struct stat st;
    return dz_fd_stat(fd, &st) == 0 && (S_ISDIR(st.st_mode) || dz_image_is_oci(fd));
}

static int import(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    char sha256[DZ_SHA256_HEX];
    struct building b = {.c = c};
    struct dz_image_build how = {.name = dz_cli_value(c, "tag"),
                                 .oci_name = dz_cli_value(c, "name"),
                                 .status = on_status,
                                 .step = on_step,
                                 .output = on_output,
                                 .stop = on_stop,
                                 .arg = &b};
    DZ_AUTO(dz_buf_release) struct dz_buf left = DZ_BUF_INIT(DZ_LINE_MAX);
    DZ_AUTO(dz_fd_close) int fd = dz_fd_open(AT_FDCWD, c->argv[0], O_RDONLY, 0, err);
    int rc = dz_cli_files_only(c, err);
    if (rc == 0)
        rc = fd < 0 ? fd : dz_cli_image_store(&s, err);
    if (rc < 0)
        return rc;
    if (is_oci(fd))
        how.oci = c->argv[0];
    else if (how.oci_name)
        return dz_cli_usage(c, err, "--name chooses an image of an OCI layout or archive");
    dz_cli_catch_interrupts();
    rc = how.oci ? dz_image_build(s, &how, sha256, err)
                 : dz_image_import(s, fd, &how, sha256, &left, err);
    end_step(&b);
    if (rc == 0 && left.len > 0)
        dz_cli_warn(c,
                    "names in the file that other images here keep: %s; --tag gives the image "
                    "another name",
                    left.p);
    if (rc < 0 && rc != DZ_ECANCELED && how.oci)
        show_log(c, s, how.name);
    return rc < 0 ? dz_wrap(err, rc, "import %s", c->argv[0]) : print_result(c, s, sha256, err);
}

const struct dz_cli_command dz_cmd_image_import = {
    .name = "image import",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "import an image from a file",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            {"tag", 't', "NAME[:TAG]", "tag the image; overrides the tags in the file"},
            {"name", 0, "REF", "the image to take from an OCI layout or archive with several"},
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_QUIET,
            DZ_CLI_OPTION_END},
    .help = "FILE is what `doze image export` wrote, an archive of `docker save` or `podman\n"
            "save`, or an OCI layout (a directory or a tar of one). It is checked completely\n"
            "in a jail and nothing in it is trusted. The image keeps its tags, except those\n"
            "that another image has here.\n\n"
            "Of an OCI image the layers, environment, user, working directory and command\n"
            "are taken: ENTRYPOINT and CMD together are the default command, which a given\n"
            "COMMAND replaces as a whole.\n",
    .run = import,
};

/* --- pull ------------------------------------------------------------------------------------ */

static int pull(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    char sha256[DZ_SHA256_HEX];
    struct building b = {.c = c};
    const struct dz_image_build how = {.pull = c->argv[0],
                                       .name = dz_cli_value(c, "tag"),
                                       .status = on_status,
                                       .step = on_step,
                                       .bytes = on_bytes,
                                       .output = on_output,
                                       .stop = on_stop,
                                       .arg = &b};
    int rc = dz_cli_files_only(c, err);
    if (rc == 0)
        rc = dz_cli_image_store(&s, err);
    if (rc < 0)
        return rc;
    dz_cli_catch_interrupts();
    rc = dz_image_build(s, &how, sha256, err);
    end_step(&b);
    return rc < 0 ? dz_wrap(err, rc, "pull %s", c->argv[0]) : print_result(c, s, sha256, err);
}

const struct dz_cli_command dz_cmd_image_pull = {
    .name = "image pull",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "fetch an OCI image from a registry",
    .args = "REF",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){{"tag", 't', "NAME[:TAG]",
                                               "tag the image; otherwise by REF's last part"},
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "REF is HOST/NAME[:TAG] or HOST/NAME@sha256:DIGITS; without HOST it is an image\n"
            "of the registry that DOZE_IMAGE_REGISTRY names. The image for Linux on amd64 is\n"
            "taken, and named by the last part of NAME and the tag: HOST/team/app:1.0\n"
            "becomes app:1.0. What was fetched before is not fetched again.\n\n"
            "Logins are those of `docker login` and `podman login`, credential helpers\n"
            "included. A registry needs TLS, unless it is on this machine.\n",
    .run = pull,
};

/* --- export ---------------------------------------------------------------------------------- */

/* Does an OCI image become an archive? Otherwise the target is a directory. */
static bool is_tar(const char *to)
{
    return strcmp(to, "-") == 0 || dz_str_ends(dz_str(to), DZ_STR(".tar"));
}

static int export(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_cli_image_storep) struct dz_image_store *s = NULL;
    char sha256[DZ_SHA256_HEX];
    struct building b = {.c = c};
    const struct dz_image_build how = {.bytes = on_bytes, .stop = on_stop, .arg = &b};
    const char *to = c->argv[1];
    const bool pipe = strcmp(to, "-") == 0, oci = dz_cli_flag(c, "oci");
    const char *directory = oci && !is_tar(to) ? to : NULL;
    int rc = dz_cli_files_only(c, err);
    if (rc == 0)
        rc = dz_cli_image_store(&s, err);
    if (rc == 0)
        rc = dz_image_find(s, c->argv[0], sha256, err);
    if (rc < 0)
        return rc;
    if (oci)
        dz_cli_catch_interrupts();
    DZ_AUTO(dz_fd_close)
    int fd = directory ? -1
             : pipe    ? dup(STDOUT_FILENO)
                       : dz_fd_open(AT_FDCWD, to, O_WRONLY | O_CREAT | O_EXCL, 0644, err);
    if (fd < 0 && !directory)
        return pipe ? dz_fail_sys(err, errno, "write to standard output") : fd;
    rc = oci ? dz_image_export_oci(s, c->argv[0], directory, fd, &how, err)
             : dz_image_export(s, sha256, fd, err);
    end_step(&b);
    if (rc == 0 && fd >= 0 && !pipe && fsync(fd) < 0)
        rc = dz_fail_sys(err, errno, "write %s", to);
    if (rc < 0 && fd >= 0 && !pipe)
        (void)unlink(to);
    return rc;
}

const struct dz_cli_command dz_cmd_image_export = {
    .name = "image export",
    .group = DZ_CLI_GROUP_IMAGE,
    .summary = "export an image to a file",
    .args = "IMAGE FILE",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){{"oci", 0, NULL,
                                               "write an OCI image, for docker, podman and skopeo"},
                                              DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "FILE must not exist; - is standard output. It is a disk file: `doze disk ls`\n"
            "and sqlite3 read it, and `doze image import` imports it on another machine. It\n"
            "contains the tags of the image.\n\n"
            "With --oci, FILE is an archive for `docker load` and `podman load` if it ends\n"
            "in .tar or is -, otherwise a directory, an OCI layout. The image has one layer,\n"
            "which is not compressed, and one tag. Its default command becomes Cmd. Programs\n"
            "that sleep in it are left out. Only images of kind linux can be OCI images.\n",
    .run = export,
};
