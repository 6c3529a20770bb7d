/* SPDX-License-Identifier: MIT
 *
 * cli_commands.h - the table of commands.
 *
 * One line each, in the order of `doze help`; X(id) stands for the constant
 * dz_cmd_<id> that the command's own file defines. A command of two words has
 * an id with an underscore (`disk ls` is disk_ls).
 */
#ifndef DZ_CLI_COMMANDS_H
#define DZ_CLI_COMMANDS_H

#include "cli/cli.h"

#define DZ_CLI_COMMANDS(X) \
    X(create)              \
    X(exec)                \
    X(shell)               \
    X(ls)                  \
    X(get)                 \
    X(rm)                  \
    X(rename)              \
    X(label)               \
    X(wake)                \
    X(suspend)             \
    X(freeze)              \
    X(archive)             \
    X(revive)              \
    X(prefetch)            \
    X(hold)                \
    X(timeout)             \
    X(expiry)              \
    X(attach)              \
    X(cp)                  \
    X(cat)                 \
    X(edit)                \
    X(files_rm)            \
    X(files_mkdir)         \
    X(files_mv)            \
    X(files)               \
    X(sql)                 \
    X(ps)                  \
    X(logs)                \
    X(kill)                \
    X(events)              \
    X(port_ls)             \
    X(port_open)           \
    X(port_close)          \
    X(preview_url)         \
    X(preview_token)       \
    X(preview_ls)          \
    X(preview_rm)          \
    X(forward)             \
    X(egress_show)         \
    X(egress_set)          \
    X(egress_clear)        \
    X(mcp)                 \
    X(schedule_add)        \
    X(schedule_ls)         \
    X(schedule_rm)         \
    X(schedule_run)        \
    X(schedule_history)    \
    X(service_add)         \
    X(service_ls)          \
    X(service_status)      \
    X(service_rm)          \
    X(service_start)       \
    X(service_stop)        \
    X(service_restart)     \
    X(volume_create)       \
    X(volume_ls)           \
    X(volume_get)          \
    X(volume_rm)           \
    X(volume_cp)           \
    X(volume_export)       \
    X(volume_import)       \
    X(volume_du)           \
    X(sandbox_create)      \
    X(sandbox_exec)        \
    X(sandbox_wake)        \
    X(sandbox_destroy)     \
    X(run)                 \
    X(resume)              \
    X(inspect)             \
    X(snapshot_ls)         \
    X(snapshot_rm)         \
    X(snapshot)            \
    X(fork_ls)             \
    X(fork_rm)             \
    X(fork)                \
    X(ref_ls)              \
    X(ref_rm)              \
    X(ref)                 \
    X(clone)               \
    X(share)               \
    X(image_build)         \
    X(image_lock)          \
    X(image_snapshot)      \
    X(image_ls)            \
    X(image_inspect)       \
    X(image_rm)            \
    X(image_gc)            \
    X(image_verify)        \
    X(image_import)        \
    X(image_pull)          \
    X(image_export)        \
    X(disk_create)         \
    X(disk_ls)             \
    X(disk_cat)            \
    X(disk_put)            \
    X(disk_get)            \
    X(disk_mkdir)          \
    X(disk_mv)             \
    X(disk_rm)             \
    X(disk_df)             \
    X(disk_du)             \
    X(disk_sql)            \
    X(disk_check)          \
    X(disk_tar)            \
    X(disk_untar)          \
    X(wasm_info)           \
    X(wasm_run)            \
    X(wasm_prepare)        \
    X(restore)             \
    X(replica_ls)          \
    X(replica_status)      \
    X(replica_verify)      \
    X(replica_push)        \
    X(replicate)           \
    X(replica_prune)       \
    X(registry_ls)         \
    X(registry_get)        \
    X(registry_register)   \
    X(registry_set_state)  \
    X(registry_check)      \
    X(registry_repair)     \
    X(quota)               \
    X(usage)               \
    X(tenant_ls)           \
    X(token_create)        \
    X(token_ls)            \
    X(token_revoke)        \
    X(daemon)              \
    X(top)                 \
    X(stats)               \
    X(debug_dump)          \
    X(config_check)        \
    X(config_defaults)     \
    X(config)              \
    X(key_new)             \
    X(key_ls)              \
    X(doctor)              \
    X(completion)          \
    X(help)

#define X(id) extern const struct dz_cli_command dz_cmd_##id;
DZ_CLI_COMMANDS(X)
#undef X

/* A command's name has at most this many words. */
#define DZ_CLI_WORDS_MAX 3

/* The table; ends with NULL. */
extern const struct dz_cli_command *const dz_cli_commands[];

/* The command whose name is the first words of argv (the longest such name),
 * and how many words that took. NULL when there is none. */
const struct dz_cli_command *dz_cli_command_find(int argc, char **argv, int *ret_words);

/* Is `word` the first word of some command's name, as "disk" of "disk ls"? */
bool dz_cli_command_is_prefix(const char *word);

/* Suggest a command for words that name none: its whole name as the user should type it, or only
 * its first word when that alone was mistyped. NULL when no name is near. The text lives in
 * ret_text or in the table. */
#define DZ_CLI_NAME_MAX 48 /* bytes of a command's name, with the terminator */
const char *dz_cli_command_nearest(int argc, char **argv, char ret_text[static DZ_CLI_NAME_MAX]);

#endif
