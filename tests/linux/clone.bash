# A repository of 5,000 files in 100 directories, cloned, changed, and fetched.
set -eu
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
export GIT_CONFIG_GLOBAL=$PWD/config
git config --global user.email a@b.c
git config --global user.name n
git config --global init.defaultBranch main
git init -q from
cd from
for d in $(seq 100); do
    mkdir d$d
    for f in $(seq 50); do echo "$d $f" >d$d/f$f; done
done
git add .
git commit -qm all
cd ..
git clone -q --no-local from to
git -C to ls-files | wc -l
git -C to fsck 2>&1
git -C to status --short
echo changed >from/d7/f7
git -C from commit -qam change
git -C to pull -q
cat to/d7/f7
git -C to log --format=%H
git -C to gc -q
git -C to count-objects
git clone -q --depth 1 "file://$PWD/from" shallow
git -C shallow log --oneline | wc -l
