#!/bin/bash
# boot.sh: the first process of a container in which systemd runs as on a host. Where the host's control groups are not those of one hierarchy
# alone, systemd gets one of its own, below that of the container. Slurm's own services stay off; munge is the host's.
set -euo pipefail

systemctl mask --quiet slurmd slurmctld slurmdbd slurmrestd mariadb getty.target console-getty systemd-resolved systemd-networkd
install -o munge -g munge -m 0400 /keys/munge.key /etc/munge/munge.key

if [[ $(stat -f -c %T /sys/fs/cgroup) == cgroup2fs ]]; then
    mount -o remount,rw /sys/fs/cgroup
    exec /lib/systemd/systemd
fi
mkdir -p /run/hierarchy
mount -t cgroup2 none /run/hierarchy
mkdir -p "/run/hierarchy/$HOSTNAME"
echo $$ >"/run/hierarchy/$HOSTNAME/cgroup.procs"
exec unshare --cgroup --mount --propagation unchanged bash -c '
    umount -R /sys/fs/cgroup /run/hierarchy
    mount -t cgroup2 none /sys/fs/cgroup
    exec /lib/systemd/systemd'
