#!/bin/bash
# doze run --trace: the system calls of native programs as lines.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

traced() { doze run --image debian "$@" </dev/null; }

test_that 'calls go to standard error, output does not change' '
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    traced --trace -- bash -c "/bin/echo hello; exit 0" >out 2>err && [ "$(cat out)" = hello ] &&
    grep -qE "^ +[0-9]+ execve\(\"/bin/echo\", \[\"/bin/echo\", \"hello\"\], .*\) = 0$" err &&
    grep -qE "^ +[0-9]+ write\(1, \"hello\\\\n\", 6\) = 6$" err &&
    grep -qE "^ +[0-9]+ exit_group\(0\) = \?$" err && grep -qE "\+\+\+ exited with 0 \+\+\+$" err
'
test_that 'or to a file; calls that the stub answers are lines, too' '
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    traced --trace=lines -- /usr/bin/python3 -c "import os; os.getuid(); os.open(\"/none\", 0)" >out 2>err || true
    has err "[Errno 2]" && lacks err openat && grep -qE " getuid\(\) = 0$" lines &&
    grep -qE " openat\(AT_FDCWD, \"/none\", O_RDONLY\|O_CLOEXEC, .*\) = -1 ENOENT \(No such file" lines
'
test_that 'waits, children, signals, ends' '
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    traced --trace=lines -- bash -c "trap : USR1; sleep 0.01 & wait; kill -USR1 \$\$; kill -9 \$\$" || status=$?
    [ "$status" = 137 ] && grep -q " <unfinished ...>$" lines && grep -q "<... wait4 resumed>" lines &&
    grep -qE "clone\(.* = [0-9]+$" lines && grep -qE "\-\-\- SIGUSR1 \{si_signo=SIGUSR1, si_code=SI_USER" lines &&
    grep -q "SIGCHLD, si_code=CLD_EXITED" lines && [ "$(tail -n 1 lines | cut -c 7-)" = "+++ killed by SIGKILL +++" ]
'
test_that 'arguments that point to nothing, and bytes that a terminal would obey' '
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    cat >hostile.c <<-"END"
	#include <sys/syscall.h>
	#include <unistd.h>
	int main(void)
	{
	    for (long n = 0; n < 512; n++)
	        if (n != SYS_exit && n != SYS_exit_group && n != SYS_rt_sigreturn && n != SYS_pause && n != SYS_fork &&
	            n != SYS_vfork && n != SYS_clone && n != SYS_clone3 && n != SYS_close && n != SYS_kill &&
	            n != SYS_munmap && n != SYS_mmap && n != SYS_mprotect && n != SYS_rt_sigsuspend && n != 335 && n != 336)
	            syscall(n, -1L, -1L, -1L, -1L, -1L, -1L);
	    return access("\033]0;title\007\233", 0) == 0;
	}
	END
    gcc -w -static hostile.c -o hostile && traced --trace=lines --copy "$PWD/hostile:/hostile" -- /hostile &&
    [ "$(wc -l <lines)" -gt 400 ] && grep -q "access(\"\\\\033\]0;title\\\\007\\\\233\", F_OK) = -1 ENOENT" lines &&
    ! LC_ALL=C grep -q "[^ -~]" lines
'
test_that 'programs that are modules have no such trace' '
    doze run --trace -- true 2>err || status=$?
    [ "$status" = 2 ] && has err "requires an image of kind linux"
'

test_done
