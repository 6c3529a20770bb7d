/* SPDX-License-Identifier: MIT
 *
 * `doze config`, and where commands find the daemon's settings.
 */
#include "cli/local_config.h"

#include "base/fd.h"
#include "base/json.h"
#include "cli/cli_env.h"
#include "cli/cli_table.h"
#include "registry/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DEFAULTS_MAX = 1 << 18, /* bytes of all settings as a file */
};
#define BY_DEFAULT "default" /* origin of values that are computed here */

/* --- finding ------------------------------------------------------------------------- */

static const char *absolute(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] == '/' ? value : NULL;
}

/* The user's file, else the machine's; NULL: there is neither. */
static const char *find_file(char path[static DZ_PATH_MAX])
{
    const char *base = absolute("XDG_CONFIG_HOME"), *below = "/doze/doze.ini";
    if (!base && (base = absolute("HOME")))
        below = "/.config/doze/doze.ini";
    int n = base ? snprintf(path, DZ_PATH_MAX, "%s%s", base, below) : DZ_PATH_MAX;
    if (n < DZ_PATH_MAX && access(path, F_OK) == 0)
        return path;
    return geteuid() == 0 && access(DZ_CONFIG_FILE, F_OK) == 0 ? DZ_CONFIG_FILE : NULL;
}

static int set_worked_out(struct dz_config *config, enum dz_config_key key, const char *text,
                          struct dz_err *err)
{
    return config->values[key].text[0] ? 0 : dz_config_set(config, key, text, BY_DEFAULT, err);
}

/* Compute empty settings from other settings and the environment. */
static int work_out(struct dz_config *config, struct dz_err *err)
{
    char data[DZ_PATH_MAX], path[DZ_PATH_MAX];
    const char *given = config->doze_data;
    int rc = dz_cli_data_dir(given[0] ? given : NULL, data, err);
    if (rc == 0)
        rc = set_worked_out(config, DZ_CONFIG_doze_data, data, err);
    if (rc == 0 && snprintf(path, sizeof path, "%s/doze.sock", data) >= DZ_PATH_MAX)
        rc = dz_fail(err, DZ_ELIMIT, "the path of the socket is too long");
    if (rc == 0)
        rc = set_worked_out(config, DZ_CONFIG_doze_socket, path, err);
    given = config->doze_registry;
    if (rc == 0)
        rc = dz_registry_locate(given[0] ? given : NULL, data, path, err);
    return rc < 0 ? rc : set_worked_out(config, DZ_CONFIG_doze_registry, path, err);
}

static int set_options(struct dz_cli *c, struct dz_config *config, struct dz_err *err)
{
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        char origin[DZ_CONFIG_NAME_MAX];
        const char *value = dz_cli_value(c, dz_config_rows[i].option);
        (void)snprintf(origin, sizeof origin, "--%s", dz_config_rows[i].option);
        if (value && dz_config_set(config, (enum dz_config_key)i, value, origin, err) < 0) {
            c->usage_status = err->code == DZ_EINVAL ? DZ_EXIT_USAGE : 0;
            return err->code;
        }
    }
    return 0;
}

int dz_cli_config(struct dz_cli *c, bool options, struct dz_config *ret_config, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    const char *file = dz_cli_value(c, "config");
    if (!file && (file = getenv("DOZE_CONFIG")) && !file[0])
        file = NULL;
    int rc = dz_config_load(file ? file : find_file(path), ret_config, err);
    if (rc < 0)
        return rc;
    if (options)
        rc = set_options(c, ret_config, err);
    if (rc == 0)
        rc = work_out(ret_config, err);
    if (rc < 0)
        dz_config_release(ret_config);
    return rc;
}

/* --- showing ------------------------------------------------------------------------- */

static int show_json(struct dz_cli *c, const struct dz_config *config, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DEFAULTS_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_config_print_json(config, &j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int show_table(struct dz_cli *c, const struct dz_config *config, struct dz_err *err)
{
    static const struct dz_cli_column columns[] = {
        {"SETTING", false}, {"VALUE", false}, {"FROM", false}};
    struct dz_cli_table t;
    char name[DZ_CONFIG_NAME_MAX];
    dz_cli_table_init(&t, columns, DZ_ARRAY_LEN(columns));
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        enum dz_config_key key = (enum dz_config_key)i;
        bool changed =
            config->values[i].origin && strcmp(config->values[i].origin, BY_DEFAULT) != 0;
        dz_cli_table_cell(&t, DZ_CLI_PLAIN, dz_str(dz_config_name(&dz_config_rows[i], name)));
        dz_cli_table_cell(&t, changed ? DZ_CLI_BOLD : DZ_CLI_PLAIN,
                          dz_str(dz_config_text(config, key)));
        dz_cli_table_cell(&t, DZ_CLI_DIM, dz_str(dz_config_origin(config, key)));
    }
    int rc = dz_cli_table_print(&t, c, err);
    dz_cli_table_release(&t);
    return rc;
}

static int show_one(struct dz_cli *c, const struct dz_config *config, struct dz_err *err)
{
    const char *known[DZ_CONFIG_COUNT];
    char names[DZ_CONFIG_COUNT][DZ_CONFIG_NAME_MAX], quoted[DZ_STR_QUOTED];
    struct dz_str word = dz_str(c->argv[0]);
    for (size_t i = 0; i < DZ_CONFIG_COUNT; i++) {
        known[i] = dz_config_name(&dz_config_rows[i], names[i]);
        if (dz_str_eqz(word, known[i])) {
            fprintf(c->out, "%s\n", dz_config_text(config, (enum dz_config_key)i));
            return DZ_EXIT_OK;
        }
    }
    size_t near = dz_str_nearest(word, known, DZ_CONFIG_COUNT);
    bool any = near != DZ_STR_NONE;
    return dz_cli_usage(c, err, "no setting %s; %s%s", dz_str_quote(word, quoted),
                        any ? "did you mean " : "doze config lists them", any ? known[near] : "");
}

static int run_config(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_config_release) struct dz_config config = {0};
    struct dz_config found;
    int rc = dz_cli_config(c, false, &found, err);
    if (rc < 0)
        return rc;
    config = found;
    if (c->argc > 0)
        return show_one(c, &config, err);
    return c->json ? show_json(c, &config, err) : show_table(c, &config, err);
}

static int run_check(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_CONFIG_FILE_MAX);
    struct dz_config config;
    int rc = dz_fd_read_file(AT_FDCWD, c->argv[0], &text, err);
    if (rc == 0)
        rc = dz_config_parse(c->argv[0], dz_str_n(text.p, text.len), &config, err);
    if (rc == 0)
        dz_config_release(&config);
    return rc;
}

static int run_defaults(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DEFAULTS_MAX);
    dz_config_print_defaults(&text);
    if (text.err)
        return dz_fail(err, text.err, "write the defaults: %s", dz_err_text(text.err));
    (void)fwrite(text.p, 1, text.len, c->out);
    return DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_config = {
    .name = "config",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "show the daemon's settings and where each comes from",
    .args = "[SETTING]",
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){
            DZ_CLI_OPTION_CONFIG,
            DZ_CLI_OPTION_JSON,
            DZ_CLI_OPTION_END,
        },
    .help = "Shows the settings with which `doze daemon` would start here and now. SETTING,\n"
            "for instance log.level, prints the value of one.\n"
            "\n"
            "A setting comes from its default, the file, the environment, or an option of\n"
            "`doze daemon`; later sources override earlier ones. The file is the one given\n"
            "by --config, else DOZE_CONFIG, else ~/.config/doze/doze.ini if it exists, else,\n"
            "for root, /etc/doze/doze.ini if it exists.\n",
    .run = run_config,
};

const struct dz_cli_command dz_cmd_config_check = {
    .name = "config check",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "check a file of settings",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .help = "Prints nothing if every section, key and value of FILE is valid; otherwise\n"
            "names the wrong line and what was probably meant.\n",
    .run = run_check,
};

const struct dz_cli_command dz_cmd_config_defaults = {
    .name = "config defaults",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "print a file with every setting, explained",
    .args = "",
    .help = "Every line is a comment: remove the # from the settings that you change.\n",
    .run = run_defaults,
};
