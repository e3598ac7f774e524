# A root file system in memory over that of this machine, for `unshare --mount --pid --ipc --uts --cgroup --fork bash`.
#
#   throwaway-root.sh WORK SCRIPT FOLDER...      run SCRIPT of WORK there; FOLDERs of other file systems are there, too
#
# With BOOTED=1, systemd is its first process, and runs SCRIPT as a unit. Its output goes to WORK/said, the exit code to
# WORK/rc. The kernel's settings cannot be written, and units of this machine are not started.
set -euo pipefail
work=$1 script=$2
shift 2

memory=$work/memory
mkdir "$memory"
mount -t tmpfs none "$memory"
mkdir "$memory"/{upper,state,root}
mount -t overlay none -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/state" "$memory/root"
root=$memory/root
for folder in "$work" "$@"; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
done
for file in /etc/resolv.conf /etc/hosts; do
    if [ -e "$file" ]; then
        rm -f "$root$file"
        cat "$file" > "$root$file"
    fi
done
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs none "$root/run"
mount -t tmpfs none "$root/dev"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root"/dev/{shm,pts,mqueue}
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t mqueue mqueue "$root/dev/mqueue"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
touch "$work/console" "$root/dev/console"
mount --bind "$work/console" "$root/dev/console"

cat > "$root/throwaway" <<EOF
set +e
cd "$work"
bash -euo pipefail "$work/$script" > "$work/said" 2>&1
echo \$? > "$work/rc"
EOF
entered() { # COMMAND...: in a root that is this namespace's own, where user namespaces can be made
    cd "$root"
    mkdir -p old
    pivot_root . old
    umount --lazy /old
    mount --make-rshared / # as at a machine's start: systemd mounts credentials from a namespace of its own
    exec "$@"
}
if [ "${BOOTED-}" != 1 ]; then
    entered bash /throwaway
fi

mount -t tmpfs none "$root/sys/fs/cgroup"
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 none "$root/sys/fs/cgroup"
else
    mkdir "$root/sys/fs/cgroup/systemd"
    mount -t cgroup -o none,name=systemd,xattr none "$root/sys/fs/cgroup/systemd"
fi
rm -rf "$root"/{etc,lib,usr/lib}/systemd/system/*.wants
{
    printf '[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStopPost=/bin/systemctl exit --force\n'
    printf 'ExecStart=/bin/bash /throwaway\n[Unit]\nDefaultDependencies=no\n'
} > "$root/etc/systemd/system/throwaway.service"
entered env --ignore-environment container=throwaway PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=throwaway.service --log-target=console
