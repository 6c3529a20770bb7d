/* SPDX-License-Identifier: MIT
 *
 * `doze completion bash`: a script made from the table. Two of its functions
 * hold the table (which words may follow the words typed so far, and which
 * options a command has); the third walks the words of the line and asks them.
 * Where they have no answer, bash completes file names.
 */
#include "base/str.h"
#include "cli/cli_commands.h"

#include <string.h>

static const char script_tail[] =
    "_doze() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} name='' command='' i word\n"
    "    COMPREPLY=()\n"
    "    [[ $cur == '=' || ${COMP_WORDS[COMP_CWORD - 1]} == '=' ]] && return\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        [[ $word == -* ]] && continue\n"
    "        [[ \" $(_doze_words \"$name\") \" == *\" $word \"* ]] || { [[ $command ]] || command=?; break; }\n"
    "        name=${name:+$name }$word\n"
    "        command=$name\n"
    "        [[ $name == help ]] && name=''\n"
    "    done\n"
    "    if [[ $cur == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$(_doze_options \"$command\")\" -- \"$cur\"))\n"
    "        [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
    "    else\n"
    "        COMPREPLY=($(compgen -W \"$(_doze_words \"$name\")\" -- \"$cur\"))\n"
    "    fi\n"
    "} 2>/dev/null\n"
    "complete -o default -F _doze doze\n";

static size_t first_word(const char *name)
{
    return strcspn(name, " ");
}

/* Has a row before `row` the same first `n` bytes, followed by the end of a word? */
static bool seen_before(const struct dz_cli_command *const *row, size_t n)
{
    for (const struct dz_cli_command *const *c = dz_cli_commands; c != row; c++)
        if (strncmp((*c)->name, (*row)->name, n) == 0 &&
            ((*c)->name[n] == ' ' || (*c)->name[n] == '\0'))
            return true;
    return false;
}

/* The words that may follow the first `n` bytes of row's name. */
static void print_next(FILE *out, const struct dz_cli_command *const *row, size_t n)
{
    fprintf(out, "    '%.*s') echo '", (int)n, (*row)->name);
    const char *space = "";
    for (const struct dz_cli_command *const *c = row; *c; c++) {
        const char *rest = (*c)->name + n;
        if (n > 0 && (strncmp((*c)->name, (*row)->name, n) != 0 || *rest++ != ' '))
            continue;
        size_t word = first_word(rest);
        if (seen_before(c, (size_t)(rest - (*c)->name) + word))
            continue;
        fprintf(out, "%s%.*s", space, (int)word, rest);
        space = " ";
    }
    fputs("' ;;\n", out);
}

static void print_words(FILE *out)
{
    fputs("_doze_words() {\n    case $1 in\n", out);
    print_next(out, dz_cli_commands, 0);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        const char *name = (*c)->name;
        for (const char *p = strchr(name, ' '); p; p = strchr(p + 1, ' '))
            if (!seen_before(c, (size_t)(p - name)))
                print_next(out, c, (size_t)(p - name));
        if ((*c)->words)
            fprintf(out, "    '%s') echo '%s' ;;\n", name, (*c)->words);
    }
    fputs("    esac\n}\n", out);
}

static void print_options(FILE *out)
{
    fputs("_doze_options() {\n    case $1 in\n    '') echo '--help --json --quiet --version' ;;\n",
          out);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        fprintf(out, "    '%s' | '%s '*) echo '", (*c)->name, (*c)->name);
        for (const struct dz_cli_option *o = (*c)->options; o && o->name; o++)
            fprintf(out, "--%s%s ", o->name, o->arg ? "=" : "");
        fputs("--help' ;;\n", out);
    }
    fputs("    esac\n}\n", out);
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    if (strcmp(c->argv[0], "bash") != 0)
        return dz_cli_usage(c, err, "no completion for %s; only bash has one",
                            dz_str_quote(dz_str(c->argv[0]), quoted));
    fputs("# bash completion for doze, made by: doze completion bash\n", c->out);
    print_words(c->out);
    print_options(c->out);
    fputs(script_tail, c->out);
    return DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_completion = {
    .name = "completion",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "print a script that teaches a shell to complete doze's words",
    .args = "SHELL",
    .min_args = 1,
    .max_args = 1,
    .words = "bash",
    .help = "SHELL is bash. For this shell only, and for every new one:\n"
            "\n"
            "  source <(doze completion bash)\n"
            "  doze completion bash >/etc/bash_completion.d/doze\n",
    .run = run,
};
