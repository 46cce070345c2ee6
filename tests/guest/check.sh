#!/bin/bash
# Runs in the guest: what people do with a mounted share, once per variant of the mount.
#
# Environment: PORT, SHARE, ACCOUNT, PASSWORD, VARIANTS (mount options, separated by blanks).
# Prints "VARIANT<tab>CHECK<tab>ok" or "VARIANT<tab>CHECK<tab>failed<tab>last words".
export M=/mnt/share
mkdir -p $M
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
# Where owners are told, the repositories are somebody else's. A clone reads this from a file only.
export HOME=/tmp/home
mkdir -p $HOME
git config --global safe.directory '*'

head -c 5000000 /dev/urandom >/tmp/source
# A tree of some hundred files of many sizes, without what needs more than files and folders.
export TREE=/tmp/tree
cp -rL /usr/lib/python3.* $TREE
find $TREE -name __pycache__ -prune -exec rm -rf {} +
# Time from the host's clock is finer than what a file system may keep.
find $TREE -exec touch -d '2020-02-02 02:02:02' {} +

mount_share() {
    mount -t cifs "//10.99.0.1/$SHARE" $M \
        -o "port=$PORT,username=$ACCOUNT,password=$PASSWORD,$1"
}

check() {
    local name=$1 words status=ok
    words=$(timeout 60 bash -c "$2" 2>&1 </dev/null) || status=failed
    printf '%s\t%s\t%s' "$variant" "$name" $status
    [ $status = ok ] || printf '\t%s' "$(printf '%s' "$words" | tail -n 2 | tr '\n\t' '  ')"
    printf '\n'
}

for variant in $VARIANTS; do
    if ! words=$(mount_share "$variant" 2>&1); then
        printf '%s\tmount\tfailed\t%s %s\n' "$variant" "$(head -n 1 <<<"$words")" \
            "$(dmesg | grep -i cifs | tail -n 2 | tr '\n\t' '  ')"
        continue
    fi
    printf '%s\tmount\tok\n' "$variant"
    export D=$M/${variant//[^a-z0-9]/_}
    # As it was negotiated, which is more than what was asked for.
    case $variant in
        vers=2.1*) dialect=210 ;; vers=3.0.2*) dialect=302 ;;
        vers=3.0*) dialect=300 ;; *) dialect=311 ;;
    esac
    facts='cat /proc/fs/cifs/DebugData'
    check dialect "$facts | grep 'Dialect 0x$dialect'"
    case $variant in
        *sign) check protection "$facts | grep 'Dialect.* signed'" ;;
        *seal) check protection "$facts | grep 'type: DISK.* encrypted'" ;;
        *) check protection "! $facts | grep -E 'Dialect.* signed|type: DISK.* encrypted'" ;;
    esac
    check mkdir 'mkdir $D'
    check write 'cp /tmp/source $D/big'
    check copy_tree 'cp -r $TREE $D/tree'
    # What follows comes from the server, not from the client's cache.
    umount $M
    mount_share "$variant"
    check read 'cmp /tmp/source $D/big'
    check compare_tree 'diff -r $TREE $D/tree'
    check times 'cp -p /tmp/source $D/p && touch -d 2001-02-03T04:05:06 $D/p &&
        [ "$(stat -c %Y $D/p)" = "$(date -d 2001-02-03T04:05:06 +%s)" ]'
    check direct 'dd if=/tmp/source of=$D/direct bs=4096 count=1220 oflag=direct status=none &&
        dd if=$D/direct bs=1M iflag=direct status=none | cmp -n 4997120 - /tmp/source'
    check append 'echo a >$D/append; echo b >>$D/append; [ "$(tr -d "\n" <$D/append)" = ab ]'
    check truncate 'truncate -s 1000 $D/append && [ "$(stat -c %s $D/append)" = 1000 ] &&
        truncate -s 0 $D/append && [ ! -s $D/append ]'
    check list 'mkdir $D/many && for i in $(seq 200); do echo $i >$D/many/f$i; done &&
        [ "$(ls $D/many | wc -l)" = 200 ]'
    check rename 'mv $D/many/f1 $D/many/g1 && [ ! -e $D/many/f1 ] && [ "$(cat $D/many/g1)" = 1 ]'
    check replace 'mv -f $D/many/f2 $D/many/f3 && [ "$(cat $D/many/f3)" = 2 ] && [ ! -e $D/many/f2 ]'
    check rename_folder 'mkdir -p $D/d1/x && mv $D/d1 $D/d2 && [ -d $D/d2/x ]'
    check rmdir_not_empty '! rmdir $D/d2 && [ -d $D/d2/x ]'
    # The client believes for a second what it knew before.
    check unlink_open 'exec 3<>$D/open; echo hi >&3; rm $D/open; exec 3>&-
        sleep 1.1; [ ! -e $D/open ]'
    check names 'touch "$D/a:b" "$D/q?x" "$D/s*t" "$D/ünï" "$D/trail." "$D/ lead" &&
        ls $D | grep -q "a:b" && [ -e "$D/trail." ]'
    check long_name 'n=$(printf %0250d 0); touch $D/$n && [ -e $D/$n ] && rm $D/$n'
    check case 'touch $D/CaseX; [ ! -e $D/casex ]'
    check symlink 'ln -s append $D/link && [ "$(readlink $D/link)" = append ]'
    check hard_link 'ln $D/big $D/hard && [ "$(stat -c %h $D/big)" = 2 ] && cmp $D/big $D/hard'
    check chmod 'touch $D/mode; chmod 600 $D/mode; [ "$(stat -c %a $D/mode)" = 600 ]'
    check fifo 'mkfifo $D/fifo && [ -p $D/fifo ]'
    check xattr 'setfattr -n user.k -v val $D/big &&
        [ "$(getfattr --only-values -n user.k $D/big)" = val ]'
    check flock 'exec 4>$D/flock; flock -n 4 && ! flock -n $D/flock true'
    check fcntl 'python3 -c "
import fcntl, os, sys
f = open(\"$D/fcntl\", \"w\")
fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
if os.fork() == 0:
    try:
        fcntl.lockf(open(\"$D/fcntl\", \"w\"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os._exit(0)
    os._exit(1)
sys.exit(os.wait()[1] >> 8)"'
    check mmap 'truncate -s 8192 $D/map && python3 -c "
import mmap
with open(\"$D/map\", \"r+b\") as f:
    m = mmap.mmap(f.fileno(), 8192)
    m[5000:5005] = b\"hello\"
    m.flush()
    m.close()
assert open(\"$D/map\", \"rb\").read()[5000:5005] == b\"hello\""'
    check fallocate 'fallocate -l 1M $D/space && [ "$(stat -c %s $D/space)" = 1048576 ]'
    check punch_hole 'cp /tmp/source $D/hole && fallocate -p -o 65536 -l 65536 $D/hole &&
        dd if=$D/hole bs=65536 skip=1 count=1 status=none | cmp -n 65536 - /dev/zero'
    check sparse 'truncate -s 4M $D/sparse &&
        dd if=/tmp/source of=$D/sparse bs=64k seek=32 count=1 conv=notrunc status=none &&
        cp --sparse=auto $D/sparse /tmp/sparse && cmp $D/sparse /tmp/sparse'
    check copy_on_server 'cp --reflink=auto $D/big $D/big2 && cmp /tmp/source $D/big2'
    check df 'df $M | tail -n 1 | grep -q %'
    # Nothing in the background: it would change what is copied and deleted next.
    git config --global maintenance.auto false
    git config --global gc.auto 0
    check git_repository 'mkdir $D/repo && cd $D/repo && git init -q . && seq 1000 >a &&
        git add a && git commit -qm x && git mv a b && git commit -qm y'
    check git_clone 'git clone -q $D/repo $D/clone && cd $D/clone && git fsck --full &&
        [ "$(wc -l <b)" = 1000 ]'
    check git_clone_away 'git clone -q $D/clone /tmp/clone && cmp /tmp/clone/b $D/clone/b; s=$?
        rm -rf /tmp/clone; exit $s'
    check delete 'rm -rf $D/repo $D/clone $D/many $D/d2 $D/tree && [ ! -e $D/tree ]'
    check copy_again 'cp -r $TREE $D/tree'
    check delete_rest 'find $D -mindepth 1 -maxdepth 1 ! -name tree -exec rm -rf {} + &&
        [ "$(ls -A $D)" = tree ]'
    umount $M
done
# For the host, which compares it with what is in the share's folders now.
(cd $TREE && find . -type f -exec sha256sum {} +) >/job/tree.sha256
