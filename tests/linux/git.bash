# git from init to log: commits, branches, merges, conflicts, rebase, stash, clone, gc.
set -e
export GIT_AUTHOR_DATE='2024-01-02T03:04:05Z' GIT_COMMITTER_DATE='2024-01-02T03:04:05Z'
export GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat HOME=$PWD/home
mkdir home
git config --global user.name N
git config --global user.email n@example.org
git config --global init.defaultBranch main
git config --global advice.detachedHead false
git init -q repo
cd repo
for i in $(seq 1 60); do mkdir -p d$((i % 6)); seq $i $((i + 40)) >d$((i % 6))/f$i; done
git add .
git commit -qm first
git status --short | wc -l
echo change >>d1/f1
git mv d2/f2 d3/moved
rm d4/f4
git status --short
git diff --stat
git commit -qam second
git checkout -qb side HEAD~1
echo side >>d5/f5
git commit -qam side
git checkout -q main
git merge -q --no-edit side
git log --graph --oneline --all
git checkout -qb conflict HEAD~1
echo other >>d5/f5
git commit -qam other
git merge side >merge.out 2>&1 || cat merge.out
git diff --name-only --diff-filter=U
git checkout -q --theirs d5/f5
git add d5/f5
git commit -qm solved
git checkout -q main
echo stashed >>d0/f6
git stash -q
git stash list
git stash pop -q
git diff --shortstat
git checkout -q d0/f6
git tag -a v1 -m tag
git describe
git cherry-pick conflict~1 >/dev/null 2>&1 || git cherry-pick --abort
git rebase -q --onto HEAD~1 side conflict 2>&1 | sed -n 1p || true
git rebase --abort 2>/dev/null || true
git checkout -q main
git gc -q
git fsck --full 2>&1 | grep -v '^dangling' || true
git count-objects -v | grep -E '^(count|in-pack|packs|garbage)'
git clone -q . ../clone
git -C ../clone log --format='%h %s' | sort
git bundle create -q ../b main
git bundle verify -q ../b && echo bundle
git archive main | tar t | wc -l
git grep -c 40 | head -n 5
git blame -s d1/f1 | tail -n 2
git rev-parse HEAD HEAD^{tree} v1
git worktree add -q ../tree side
ls ../tree | wc -l
git log -p -1 --format=%s side | head -n 20
