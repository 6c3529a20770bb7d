/* SPDX-License-Identifier: MIT
 *
 * `doze completion SHELL`: a script made from the table of commands, for bash, zsh and fish. Two
 * of its functions hold the table (which words may follow the words typed so far, and which
 * options a command has); the third walks the words of the line and asks them. Where they have no
 * answer, the shell completes file names. zsh and fish also show what each word does.
 */
#include "base/attr.h"
#include "base/str.h"
#include "cli/cli_commands.h"

#include <string.h>

/* The parts of a completion script that differ between shells. */
struct shell {
    const char *name;
    const char *head;                        /* bytes of the script */
    const char *words_begin, *options_begin; /* bytes of its two functions */
    const char *end;                         /* the end of each function */
    const char *row_begin, *row_also; /* the row of a name; of a name that begins with another */
    const char *row_any;              /* the end of a pattern: words may follow */
    const char *row_mid, *row_end;    /* before and behind the words of a row */
    const char *between;              /* a word and its description; NULL: no description */
    const char *quote;                /* an apostrophe in a description */
    const char *tail;                 /* the third function */
};

static const char bash_tail[] =
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

/* The file may be sourced, or be found in fpath as the function's own. */
static const char zsh_tail[] =
    "_doze() {\n"
    "    local name='' command='' word\n"
    "    local -a plain valued\n"
    "    integer i\n"
    "    for ((i = 2; i < CURRENT; i++)); do\n"
    "        word=$words[i]\n"
    "        [[ $word == -* ]] && continue\n"
    "        (( ${${(@f)\"$(_doze_words \"$name\")\"}[(I)$word:*]} )) || { [[ -n $command ]] || command='?'; break }\n"
    "        name=${name:+$name }$word\n"
    "        command=$name\n"
    "        [[ $name == help ]] && name=''\n"
    "    done\n"
    "    if [[ $words[CURRENT] == -* ]]; then\n"
    "        plain=(${(f)\"$(_doze_options \"$command\")\"})\n"
    "        valued=(${(M)plain:#*=:*})\n"
    "        plain=(${plain:#*=:*})\n"
    "        (( $#plain )) && _describe -o option plain\n"
    "        (( $#valued )) && _describe -o option valued -S ''\n"
    "    else\n"
    "        plain=(${(f)\"$(_doze_words \"$name\")\"})\n"
    "        if (( $#plain )); then _describe command plain; else _files; fi\n"
    "    fi\n"
    "}\n"
    "if [[ $funcstack[1] == _doze ]]; then _doze \"$@\"; else compdef _doze doze; fi\n";

static const char fish_tail[] =
    "function _doze\n"
    "    set -l name ''\n"
    "    set -l command ''\n"
    "    for word in (commandline -opc)[2..-1]\n"
    "        string match -q -- '-*' $word; and continue\n"
    "        if not contains -- $word (_doze_words \"$name\" | string split -f 1 \\t)\n"
    "            test -n \"$command\"; or set command '?'\n"
    "            break\n"
    "        end\n"
    "        set name (string trim \"$name $word\")\n"
    "        set command $name\n"
    "        test \"$name\" = help; and set name ''\n"
    "    end\n"
    "    if string match -q -- '-*' (commandline -ct)\n"
    "        _doze_options \"$command\"\n"
    "    else\n"
    "        _doze_words \"$name\"\n"
    "    end\n"
    "end\n"
    "function _doze_wants_file\n"
    "    test -z (_doze | string collect)\n"
    "end\n"
    "complete -c doze -f -a '(_doze)'\n"
    "complete -c doze -n _doze_wants_file -F\n";

static const struct shell shells[] = {
    {
        .name = "bash",
        .head = "# bash completion for doze, made by: doze completion bash\n",
        .words_begin = "_doze_words() {\n    case $1 in\n",
        .options_begin = "_doze_options() {\n    case $1 in\n",
        .end = "    esac\n}\n",
        .row_begin = "    '",
        .row_also = " | '",
        .row_any = " '*",
        .row_mid = ") echo '",
        .row_end = "' ;;\n",
        .tail = bash_tail,
    },
    {
        .name = "zsh",
        .head = "#compdef doze\n# zsh completion for doze, made by: doze completion zsh\n",
        .words_begin = "_doze_words() {\n    case $1 in\n",
        .options_begin = "_doze_options() {\n    case $1 in\n",
        .end = "    esac\n}\n",
        .row_begin = "    '",
        .row_also = " | '",
        .row_any = " '*",
        .row_mid = ") print -rl --",
        .row_end = " ;;\n",
        .between = ":",
        .quote = "'\\''",
        .tail = zsh_tail,
    },
    {
        .name = "fish",
        .head = "# fish completion for doze, made by: doze completion fish\n",
        .words_begin = "function _doze_words\n    switch $argv[1]\n",
        .options_begin = "function _doze_options\n    switch $argv[1]\n",
        .end = "    end\nend\n",
        .row_begin = "    case '",
        .row_also = " '",
        .row_any = " *'",
        .row_mid = "\n        printf '%s\\t%s\\n'",
        .row_end = "\n",
        .between = "' '",
        .quote = "\\'",
        .tail = fish_tail,
    },
};

/* --- rows of the two functions --------------------------------------------------------------- */

/* One word of the answer, with its description. */
static void print_word(FILE *out, const struct shell *sh, bool first, struct dz_str word,
                       const char *suffix, const char *help)
{
    if (!sh->between) {
        fprintf(out, "%s%.*s%s", first ? "" : " ", DZ_STR_ARG(word), suffix);
        return;
    }
    fprintf(out, " '%.*s%s%s", DZ_STR_ARG(word), suffix, sh->between);
    for (const char *p = help ? help : ""; *p; p++) {
        if (*p == '\'')
            fputs(sh->quote, out);
        else
            fputc(*p, out);
    }
    fputc('\'', out);
}

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

/* The summary of the command; NULL: the name is only the first words of other commands. */
static const char *summary_of(struct dz_str name)
{
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++)
        if (dz_str_eqz(name, (*c)->name))
            return (*c)->summary;
    return NULL;
}

/* The words that may follow the first `n` bytes of row's name. */
static void print_next(FILE *out, const struct shell *sh, const struct dz_cli_command *const *row,
                       size_t n)
{
    bool first = true;
    fprintf(out, "%s%.*s'%s", sh->row_begin, (int)n, (*row)->name, sh->row_mid);
    for (const struct dz_cli_command *const *c = row; *c; c++) {
        const char *rest = (*c)->name + n;
        if (n > 0 && (strncmp((*c)->name, (*row)->name, n) != 0 || *rest++ != ' '))
            continue;
        size_t word = first_word(rest);
        if (seen_before(c, (size_t)(rest - (*c)->name) + word))
            continue;
        print_word(out, sh, first, dz_str_n(rest, word), "",
                   summary_of(dz_str_n((*c)->name, (size_t)(rest - (*c)->name) + word)));
        first = false;
    }
    fputs(sh->row_end, out);
}

static void print_operands(FILE *out, const struct shell *sh, const struct dz_cli_command *c)
{
    struct dz_str rest = dz_str(c->words), word;
    bool first = true;
    fprintf(out, "%s%s'%s", sh->row_begin, c->name, sh->row_mid);
    while (dz_str_split(&rest, ' ', &word)) {
        print_word(out, sh, first, word, "", NULL);
        first = false;
    }
    fputs(sh->row_end, out);
}

static void print_words(FILE *out, const struct shell *sh)
{
    fputs(sh->words_begin, out);
    print_next(out, sh, dz_cli_commands, 0);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        const char *name = (*c)->name;
        for (const char *p = strchr(name, ' '); p; p = strchr(p + 1, ' '))
            if (!seen_before(c, (size_t)(p - name)))
                print_next(out, sh, c, (size_t)(p - name));
        if ((*c)->words)
            print_operands(out, sh, *c);
    }
    fputs(sh->end, out);
}

static void print_options(FILE *out, const struct shell *sh)
{
    static const struct dz_cli_option top[] = {
        {"help", 'h', NULL, "print this help"},
        DZ_CLI_OPTION_JSON,
        DZ_CLI_OPTION_QUIET,
        {"version", 'V', NULL, "print the version"},
    };
    fprintf(out, "%s%s'%s", sh->options_begin, sh->row_begin, sh->row_mid);
    for (size_t i = 0; i < DZ_ARRAY_LEN(top); i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "--%s", top[i].name);
        print_word(out, sh, i == 0, dz_str(name), "", top[i].help);
    }
    fputs(sh->row_end, out);
    for (const struct dz_cli_command *const *c = dz_cli_commands; *c; c++) {
        bool first = true;
        fprintf(out, "%s%s'%s%s%s%s", sh->row_begin, (*c)->name, sh->row_also, (*c)->name,
                sh->row_any, sh->row_mid);
        for (const struct dz_cli_option *o = (*c)->options; o && o->name; o++) {
            char name[64];
            (void)snprintf(name, sizeof name, "--%s", o->name);
            print_word(out, sh, first, dz_str(name),
                       o->arg && !dz_cli_may_lack_argument(o) ? "=" : "", o->help);
            first = false;
        }
        print_word(out, sh, first, DZ_STR("--help"), "", "print this help");
        fputs(sh->row_end, out);
    }
    fputs(sh->end, out);
}

static int run(struct dz_cli *c, struct dz_err *err)
{
    char quoted[DZ_STR_QUOTED];
    const struct shell *sh = NULL;
    for (size_t i = 0; i < DZ_ARRAY_LEN(shells); i++)
        if (strcmp(c->argv[0], shells[i].name) == 0)
            sh = &shells[i];
    if (!sh)
        return dz_cli_usage(c, err, "no completion for %s; SHELL is bash, zsh or fish",
                            dz_str_quote(dz_str(c->argv[0]), quoted));
    fputs(sh->head, c->out);
    print_words(c->out, sh);
    print_options(c->out, sh);
    fputs(sh->tail, c->out);
    return DZ_EXIT_OK;
}

const struct dz_cli_command dz_cmd_completion = {
    .name = "completion",
    .group = DZ_CLI_GROUP_HOST,
    .summary = "print a shell completion script",
    .args = "SHELL",
    .min_args = 1,
    .max_args = 1,
    .words = "bash zsh fish",
    .help = "SHELL is bash, zsh or fish. For the current shell only:\n"
            "\n"
            "  source <(doze completion bash)\n"
            "  source <(doze completion zsh)        # after compinit\n"
            "  doze completion fish | source\n"
            "\n"
            "For every new shell:\n"
            "\n"
            "  doze completion bash >/etc/bash_completion.d/doze\n"
            "  doze completion zsh >/usr/local/share/zsh/site-functions/_doze\n"
            "  doze completion fish >~/.config/fish/completions/doze.fish\n",
    .run = run,
};
