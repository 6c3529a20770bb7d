#!/bin/bash
# doze run -it: job control, line editing, vi and less on a terminal. tmux types and
# looks at the screen.
. "$(dirname "$0")/lib.sh"
with_base

# one server for all, kept by a first session; each test has a session of its own
mux() { tmux -S "$LIB_SCRATCH/tmux" -f /dev/null "$@"; }
trap 'mux kill-server 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
mux new-session -d -s keep cat

# on_screen PATTERN: wait until a line of the screen matches; 20 s is for ever.
on_screen() {
    local i
    for ((i = 0; i < 400; i++)); do
        mux capture-pane -t box -p | grep -qE -e "$1" && return 0
        sleep 0.05
    done
    echo "never on the screen: $1"
    mux capture-pane -t box -p | sed 's/^/  /'
    return 1
}
keys() { mux send-keys -t box "$@"; }
enter() { mux send-keys -t box -l "$1" && mux send-keys -t box Enter; }
# terminal COMMAND: a terminal of 80 by 24 in which a box runs it
terminal() {
    mux kill-session -t box 2>/dev/null
    mux new-session -d -s box -x 80 -y 24 "TERM=xterm doze run -it -- $1; echo ended with \$?; exec cat"
}
shell() {
    terminal sh && on_screen '^/ #$' && enter 'PS1="ok> "' && on_screen '^ok>$'
}

# job N COMMAND: started, and known to run: only then a key is a signal
job() {
    enter "echo go-$1; $2" && on_screen "^go-$1$"
}

test_that '^C ends what runs in the foreground, not the shell' '
    shell && job 1 "sleep 1000" && keys C-c && enter "echo rc=\$?" && on_screen "^rc=130$" &&
    job 2 "while :; do :; done" && keys C-c && enter "echo loop=\$?" && on_screen "^loop=130$" &&
    job 3 "yes | (echo both; cat >/dev/null)" && on_screen "^both$" && keys C-c && enter "echo pipe=\$?" && on_screen "^pipe=130$" &&
    enter "exit 7" && on_screen "^ended with 7$"
'

test_that '^Z, jobs, bg, fg: a job and a pipeline' '
    shell && enter "sh -c \"echo go-1; exec sleep 1000\"" && on_screen "^go-1$" && keys C-z &&
    on_screen "\[1\]\+ +Stopped +sh -c" &&
    enter "(echo go-2 >&2; yes) | tr y n >/dev/null" && on_screen "^go-2$" && keys C-z &&
    on_screen "\[2\]\+ +Stopped" &&
    enter clear && enter jobs && on_screen "^\[1\]- +Stopped +sh -c" && on_screen "^\[2\]\+ +Stopped" &&
    enter clear && enter "bg %1; jobs" && on_screen "^\[1\].* +Running +sh -c" &&
    enter "fg %2" && on_screen "^\\(echo go-2 1>&2; yes\\)" && sleep 0.2 && keys C-c && enter "echo pipe=\$?" && on_screen "^pipe=130$" &&
    enter "fg" && on_screen "^sh -c" && sleep 0.2 && keys C-c && enter clear && enter "jobs; echo none=\$(jobs | wc -l)" &&
    on_screen "^none=0$" &&
    enter "sleep 0.2 & wait; echo waited" && on_screen "^waited$" && keys C-d && on_screen "^ended with 0$"
'

test_that 'a job in the background may not read; the terminal comes back as it was' '
    shell && enter "cat & sleep 0.3" && enter "" && on_screen "Stopped \(tty input\)|Stopped.*cat" &&
    enter "kill -9 %1; wait" && enter "stty -a | grep -c icanon" && on_screen "^1$" &&
    enter "(sleep 0.1; echo from behind) & sleep 0.3" && on_screen "^from behind$" &&
    enter "printf \"pass: \"; read -s x; echo got-\$x" && on_screen "^pass:" && sleep 0.2 && enter "secret" && on_screen "got-secret$" &&
    ! mux capture-pane -t box -p | grep -q "^secret" && keys C-d && on_screen "^ended with 0$"
'

test_that 'line editing, history, the size of the window' '
    shell && mux send-keys -t box -l "echo aXc" && keys Left Left Delete && mux send-keys -t box -l b && keys Enter &&
    on_screen "^abc$" && enter clear && keys Up Up && on_screen "^ok> echo abc$" && keys Enter && on_screen "^abc$" &&
    mux send-keys -t box -l "echo /pro" && keys Tab && on_screen "echo /proc/" && keys C-u && enter "stty size" &&
    on_screen "^24 80$" && enter "sh -c \"trap \\\"echo changed\\\" WINCH; echo set; sleep 50 & wait\"" && on_screen "^set$" &&
    mux resize-window -t box -x 100 -y 30 && on_screen "^changed$" && enter "stty size" && on_screen "^30 100$" && keys C-d && on_screen "^ended with 0$"
'

# busybox waits 50 ms after Esc for the rest of a key, on any system
escape() { keys Escape && sleep 0.3; }

test_that 'vi: insert, move, delete, yank, search, substitute, write' '
    terminal "sh -c \"vi /tmp/f; cat /tmp/f\"" && on_screen "^~" && keys i && sleep 0.1 && mux send-keys -t box -l "first line" &&
    keys Enter && mux send-keys -t box -l "second line" && keys Enter && mux send-keys -t box -l "third" && on_screen "^third$" && escape &&
    keys g g && keys y y p && on_screen "^first line$" && keys G A && mux send-keys -t box -l "!" && escape && on_screen "^third!$" &&
    mux send-keys -t box -l "/second" && keys Enter && keys d w && on_screen "^line$" && keys u && on_screen "^second line$" &&
    mux send-keys -t box -l ":%s/line/LINE/" && keys Enter && on_screen "^second LINE$" &&
    [ "$(mux capture-pane -t box -p | head -n 5 | tr "\n" ,)" = "first LINE,first LINE,second LINE,third!,~," ] &&
    mux send-keys -t box -l ":wq" && keys Enter && on_screen "^ended with 0$" && on_screen "^second LINE$"
'

test_that 'less: pages, ends, a search, from a pipe' '
    terminal "sh -c \"seq 1 500 | less\"" && on_screen "^23$" && ! mux capture-pane -t box -p | grep -q "^24$" &&
    keys Space && on_screen "^46$" && ! mux capture-pane -t box -p | grep -q "^23$" && keys G && on_screen "^500$" &&
    keys g && on_screen "^1$" && mux send-keys -t box -l "/^3.7" && keys Enter && on_screen "^307$" && keys q &&
    on_screen "^ended with 0$"
'

test_that 'top shows what runs, and q ends it' '
    terminal "sh -c \"sleep 50 & top\"" && on_screen "sleep 50" && on_screen "^Mem:" && keys q && on_screen "^ended with 0$"
'

test_done
