# Perl: fork, pipes, signals, sockets, directories, regular expressions, sorting.
use strict;
use warnings;
use Errno;
use Fcntl ':flock';
use IO::Select;
use POSIX ':sys_wait_h';
use Socket;
$| = 1;
my %count;
open my $f, '<', $0 or die;
while (<$f>) { $count{$1}++ while /\b([a-z]{3})\b/g }
close $f;
print join(' ', (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 4]), "\n";
open my $p, '-|', 'seq 1 5 | tac' or die;
print "pipe: ", join(',', map { chomp; $_ } <$p>), "\n";
close $p;
my $out = `echo quoted; exit 3`;
print "quoted: $out status ", $? >> 8, "\n";
my @kids = map { my $pid = fork() // die; exit $_ if !$pid; $pid } 1 .. 5;
my $sum = 0;
waitpid($_, 0) == $_ && ($sum += $? >> 8) for @kids;
print "children: $sum\n";
local $SIG{ALRM} = sub { die "alarm\n" };
eval { alarm 1; select undef, undef, undef, 5; };
print "caught: $@";
local $SIG{USR1} = sub { print "usr1\n" };
kill USR1 => $$;
socketpair my $left, my $right, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die;
if (!fork) { close $left; my $line = <$right>; syswrite $right, uc $line; exit }
close $right;
syswrite $left, "to a child\n";
print "socket: ", scalar <$left>;
wait;
print "ready: ", scalar(IO::Select->new($left)->can_read(1)), "\n";
mkdir 'd';
for (qw(a b c d e)) { open my $g, '>', "d/$_" or die; close $g }
opendir my $d, 'd' or die;
print "dir: ", join(' ', sort grep { !/^\./ } readdir $d), "\n";
rename 'd/a', 'd/z';
unlink 'd/b';
print "glob: @{[glob 'd/*']}\n";
open my $l, '>', 'lock' or die;
flock $l, LOCK_EX or die;
if (!fork) { open my $m, '>', 'lock'; print "lock: ", flock($m, LOCK_EX | LOCK_NB) ? "taken" : "held", "\n"; exit }
wait;
print "error: ", (open(my $n, '<', '/does/not/exist') ? '' : $!), " ", $! == Errno::ENOENT ? 1 : 0, "\n";
print "time: ", POSIX::strftime('%Y-%m-%d', gmtime 86400 * 365), "\n";
print "stat: ", join(' ', (stat '/etc')[2] & 040000 ? 'dir' : '', -d '/etc', -x '/bin/sh'), "\n";
my $text = join '', map { chr(97 + $_ % 26) } 1 .. 100000;
print "regex: ", scalar(() = $text =~ /xyz(?=abc)/g), "\n";
exec 'sh', '-c', 'echo executed; exit 6';
