#!/bin/bash
# walk.sh SLURMREST PARTITION DEB...: what a newcomer does by the first page of docs/operations.md, as root on a host
# that reaches slurmrestd. Two packages, what is true of this site, four commands. It says each command before it runs.
set -euo pipefail
slurmrestd=$1 partition=$2
shift 2

command -v sudo >/dev/null || sudo() { runuser "$1" "$2" -- "${@:3}"; } # sudo -u USER COMMAND...

walk() {
    echo "# $*"
    "$@"
}

walk apt-get -q -y install --no-install-recommends "$@"

# What is true of this site: where slurmrestd is, which partition, what its jobs are.
sed -i "s,http://127.0.0.1:6820,$slurmrestd," /etc/synergy/synergy-slurmd.env
sed -i "s,^partitions: .*,partitions: [$partition]," /etc/synergy/synergy-slurmd.yaml
cat >>/etc/synergy/synergy-slurmd.yaml <<END
match:
  - {partition: $partition, job_name: "resnet*", profile: res18.json}
END
cp /usr/share/synergy/profiles/*.json /etc/synergy/profiles/

walk sacctmgr -i add user synergy account=root adminlevel=operator || true # it may be there
walk systemctl enable --now synergy-token.timer
until [ -e /var/lib/synergy/token ]; do sleep 0.1; done
walk sudo -u synergy synergy-slurmd --check --slurmrestd "$slurmrestd" --shadow
walk systemctl enable --now synergy-slurmd
