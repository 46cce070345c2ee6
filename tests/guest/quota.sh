# Serves shares on two file systems that count quotas, which the machine's own kernel may not do. On
# each disk a user owns a file of 1 MiB. /job has the server (`choro`, `libtdb.so.1`), `no_vdso.so`
# and the disks (`*.ext4`). Makes /job/ready when it listens, and ends when /job/stop is there.
set -e
modprobe -q loop || true
modprobe -q quota_v2
cp -a /etc /tmp/etc
mount --bind /tmp/etc /etc
# Before the file that says who is there, as the account of a user has to be one of the system.
for user in "$ACCOUNT:30001" "$OTHER:30002"; do
    echo "${user%:*}:x:${user#*:}:${user#*:}::/tmp:/bin/false" >>/etc/passwd
done
mkdir -p /tmp/bin /tmp/limited /tmp/counted /tmp/server
cp /job/choro /job/libtdb.so.1 /job/no_vdso.so /tmp/bin/
export LD_LIBRARY_PATH=/tmp/bin LD_PRELOAD=/tmp/bin/no_vdso.so
for disk in limited:usrquota counted:noquota; do
    folder=${disk%:*}
    cp "/job/$folder.ext4" /tmp/
    mount -o "loop,${disk#*:}" "/tmp/$folder.ext4" "/tmp/$folder"
    chmod 777 "/tmp/$folder"
    head -c 1048576 /dev/zero >"/tmp/$folder/film"
    chown 30001:30001 "/tmp/$folder/film"
done
for folder in state lock private run cache; do
    echo "$folder directory = /tmp/server/$folder" | sed 's/private directory/private dir/; s/run directory/pid directory/'
done >/tmp/folders
cat - /tmp/folders /job/shares >/tmp/smb.conf <<<'[global]'
for user in "$ACCOUNT" "$OTHER"; do
    echo "$PASSWORD" | /tmp/bin/choro --config /tmp/smb.conf user add "$user" --password-stdin
done
/tmp/bin/choro --config /tmp/smb.conf serve &
server=$!
until (exec 3<>/dev/tcp/127.0.0.1/445) 2>/dev/null; do
    kill -0 $server
    sleep 0.1
done
touch /job/ready
until [ -e /job/stop ]; do
    sleep 0.1
done
kill -TERM $server
wait $server
for folder in limited counted; do
    umount "/tmp/$folder"
done
