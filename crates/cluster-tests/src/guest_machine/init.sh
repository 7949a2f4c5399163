#!/bin/sh
# The first process of the guest: makes a machine as systemd would, runs the steps, tells the host how each ended.
# Where it fails it ends, and the kernel with it; the host then shows the console.
set -eu

# The kernel's first root cannot be pivoted away from, which no machine has to do without: we work on a mount of it.
if [ "${1:-}" != again ]; then
    mount -o bind / /mnt
    cd /mnt
    mount -o move . /
    exec chroot . /init again
fi

cd /
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount -t devtmpfs -o nosuid,mode=755 devtmpfs /dev
mkdir /dev/pts /dev/shm
mount -t devpts -o nosuid,noexec,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /dev/shm
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /run
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /tmp
mount -t securityfs -o nosuid,nodev,noexec securityfs /sys/kernel/security
mount -t cgroup2 -o nosuid,nodev,noexec,nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup
# Mounts of one namespace reach the next where nobody takes care, as they do on most machines.
mount --make-rshared /
ip link set lo up
hostname guest

# Every controller for everybody's groups. Those of the user are beneath one that root keeps.
mkdir /sys/fs/cgroup/user
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
    echo "+$controller" >/sys/fs/cgroup/user/cgroup.subtree_control
done
# A group that a step has as its own, as `systemd-run --user --scope -p Delegate=yes` gives one.
delegate() {
    mkdir "$1"
    chown user:user "$1"
    for file in $(cat /sys/kernel/cgroup/delegate); do
        [ ! -e "$1/$file" ] || chown user:user "$1/$file"
    done
}
mkdir -p /run/steps /run/user/1000
chown user:user /home/user /run/user/1000
chmod 700 /home/user /root /run/user/1000

# What the host reads: bytes as they are, and only ours. Steps do not get it.
stty -F /dev/ttyS1 115200 raw -echo
exec 3>/dev/ttyS1
export PATH=/usr/sbin:/usr/bin

while read -r number who <&4; do
    step=/run/steps/$number
    # On the console, for those who have to find out where it stopped.
    echo "step $number"
    code=0
    case $who in
        root) (
            cd /root
            HOME=/root exec setsid "/steps/$number"
        ) ;;
        user) (
            group=/sys/fs/cgroup/user/$number
            delegate "$group"
            echo 0 >"$group/cgroup.procs"
            cd /home/user
            XDG_RUNTIME_DIR=/run/user/1000 exec setsid su user -c "exec /steps/$number"
        ) ;;
    esac </dev/null >"$step.out" 2>"$step.err" 3>&- 4>&- || code=$?
    # No more than was announced, should something of the step still be writing.
    out=$(stat -c %s "$step.out") err=$(stat -c %s "$step.err")
    echo "end $code $out $err" >&3
    head -c "$out" "$step.out" >&3
    head -c "$err" "$step.err" >&3
done 4</steps/all
echo bye >&3
# Closing waits until the last byte has left.
exec 3>&-
poweroff -f
