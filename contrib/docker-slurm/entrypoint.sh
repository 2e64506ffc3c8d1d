#!/bin/bash
# Starts one role of the cluster. Every role is started at the same moment and
# waits by itself for what it needs: keys first, then the database, the
# accounting daemon, the controller.
set -euo pipefail

templates=/usr/local/share/docker-slurm

# wait_for SECONDS WHAT COMMAND... runs COMMAND until it succeeds.
wait_for() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS >= deadline)); then
            echo "entrypoint: waiting for $what: gave up" >&2
            exit 1
        fi
        sleep 0.3
    done
}

render() {
    sed -e "s/@NODES@/$NODES/g" \
        -e "s/@NODE_CPUS@/$NODE_CPUS/g" \
        -e "s/@CORES_PER_SOCKET@/$((NODE_CPUS / 2))/g" \
        -e "s/@NODE_MEMORY@/$NODE_MEMORY/g" \
        -e "s/@NODE_GPUS@/$NODE_GPUS/g" \
        -e "s/@LAST_GPU@/$((NODE_GPUS - 1))/g" \
        -e "s/@NODE_SHARDS@/$((NODE_GPUS * 4))/g" \
        -e "s/@NODE_GRES@/$(node_gres)/g" \
        -e "s/@LEASE@/$LEASE/g" \
        -e "s/@MIN_JOB_AGE@/$MIN_JOB_AGE/g" \
        -e "s/@SCHEDULER@/$SCHEDULER/g" \
        -e "s/@SYNERGY_UID@/$(id -u synergy)/g" \
        "$templates/$1.in" >"/etc/slurm/$1"
}

# node_gres is what slurm.conf says of a node's GPUs. With NODE_DEVICES=yes each has a type of its own, so that a job
# can be sent to one of them.
node_gres() {
    local gpu gres=
    for ((gpu = 0; gpu < NODE_GPUS; gpu++)); do gres+="gpu:g$gpu:1,"; done
    [[ $NODE_DEVICES == yes ]] || gres="gpu:$NODE_GPUS,"
    echo "${gres}shard:$((NODE_GPUS * 4))"
}

# device_lines are those of gres.conf for that.
device_lines() {
    local gpu
    echo "AutoDetect=off"
    for ((gpu = 0; gpu < NODE_GPUS; gpu++)); do
        echo "NodeName=n[1-$NODES] Name=gpu Type=g$gpu File=/dev/fakegpu$gpu"
        echo "NodeName=n[1-$NODES] Name=shard Count=4 File=/dev/fakegpu$gpu"
    done
}

# first_node CONTAINER and last_node CONTAINER are the numbers of the nodes in the container with that number.
first_node() { echo $((($1 - 1) * PER_CONTAINER + 1)); }
last_node() { echo $(($1 * PER_CONTAINER < NODES ? $1 * PER_CONTAINER : NODES)); }

# Nodes that share a container are told apart by their port.
node_lines() {
    local k
    if ((PER_CONTAINER == 1)); then
        echo "NodeName=n[1-$NODES]"
        return
    fi
    for ((k = 1; k <= (NODES + PER_CONTAINER - 1) / PER_CONTAINER; k++)); do
        echo "NodeName=n[$(first_node $k)-$(last_node $k)] NodeHostname=nodes$k NodeAddr=nodes$k" \
            "Port=[$((17000 + $(first_node $k)))-$((17000 + $(last_node $k)))]"
    done
}

# Whoever comes first makes the keys; the lock makes the others wait.
make_keys() {
    chmod 0755 /keys
    [[ -e /keys/munge.key ]] || head -c 1024 /dev/urandom >/keys/munge.key
    [[ -e /keys/jwt.key ]] || head -c 32 /dev/urandom >/keys/jwt.key
    chown munge:munge /keys/munge.key && chmod 0400 /keys/munge.key
    chown slurm:slurm /keys/jwt.key && chmod 0600 /keys/jwt.key
}

make_shared_folders() {
    local user
    install -d -m 0755 /shared/home
    for user in alice bob synergy slurmrest; do
        install -d -o "$user" -g "$user" -m 0755 "/shared/home/$user"
    done
    install -d -m 1777 /shared/ckpt /shared/out
    install -d -o synergy -g synergy -m 0700 /shared/synergy
    install -d -o synergy -g synergy -m 0755 /shared/gate # what the daemon writes for job_submit.lua
    install -d -o slurmrest -g slurmrest -m 0755 /shared/slurmrestd
}

prepare() {
    (
        umask 077
        flock 9
        make_keys
        make_shared_folders
    ) 9>/keys/.lock
    install -d /etc/slurm
    install -d -o slurm -g slurm /var/lib/slurm /var/lib/slurm/slurmctld
    render slurm.conf
    node_lines >>/etc/slurm/slurm.conf
    render gres.conf
    [[ $NODE_DEVICES != yes ]] || device_lines >/etc/slurm/gres.conf
    render cgroup.conf
    render plugstack.conf
    ln -sf /opt/synergy/etc/cli_filter.lua /etc/slurm/cli_filter.lua
}

start_munge() {
    install -d -o munge -g munge -m 0755 /run/munge
    install -d -o munge -g munge -m 0700 /etc/munge /var/lib/munge /var/log/munge
    install -o munge -g munge -m 0400 /keys/munge.key /etc/munge/munge.key
    rm -f /run/munge/munge.socket.2*
    setpriv --reuid munge --regid munge --init-groups munged
    wait_for 10 munge munge -n
}

as() { # USER COMMAND...
    local user=$1
    shift
    exec setpriv --reuid "$user" --regid "$user" --init-groups "$@"
}

run_mariadb() {
    install -d -o mysql -g mysql /run/mysqld
    as mysql mariadbd --bind-address=0.0.0.0 --skip-name-resolve \
        --innodb-lock-wait-timeout=900 --innodb-buffer-pool-size=128M \
        --innodb-flush-log-at-trx-commit=0 --init-file="$templates/mariadb.sql"
}

# The daemon's user is an operator and no more: a test cluster run as root
# would hide every permission error.
register_accounts() {
    wait_for 240 slurmdbd sacctmgr -n show cluster
    sacctmgr -iQ add cluster synergy || true
    sacctmgr -iQ add account users || true
    sacctmgr -iQ add user alice,bob,synergy account=users || true
    sacctmgr -iQ modify user synergy set adminlevel=operator || true
}

run_slurmdbd() {
    start_munge
    render slurmdbd.conf
    chown slurm:slurm /etc/slurm/slurmdbd.conf && chmod 0600 /etc/slurm/slurmdbd.conf
    wait_for 240 mariadb bash -c 'exec 3<>/dev/tcp/mariadb/3306'
    register_accounts &
    exec slurmdbd -D
}

accounts_registered() {
    [[ $(sacctmgr -nP show user synergy format=adminlevel) == Operator ]]
}

# The token is replaced by a rename, so a reader sees the old or the new one
# and never a half of either.
write_token() {
    local token
    token=$(scontrol token username=synergy lifespan="$TOKEN_LIFESPAN") || return
    (umask 077 && printf '%s\n' "${token#SLURM_JWT=}" >/shared/synergy/.token.new)
    chown synergy:synergy /shared/synergy/.token.new
    mv /shared/synergy/.token.new /shared/synergy/token
}

keep_token_fresh() {
    until write_token; do sleep 0.5; done
    while sleep $((TOKEN_LIFESPAN / 3)); do write_token || true; done
}

install_lua() {
    ln -sf /opt/synergy/etc/job_submit.lua /etc/slurm/job_submit.lua
    render synergy_settings.lua
}

run_slurmctld() {
    start_munge
    install_lua
    wait_for 240 accounts accounts_registered
    keep_token_fresh &
    [[ $FAKE_CLOCK != yes ]] || fake_clock
    exec slurmctld -D -i
}

# From here on the clock is off by what stands in /run/clock, such as +120s,
# and can be set while the process runs. Monotonic clocks are left alone: no
# jump of a real clock moves them either.
fake_clock() {
    [[ -e /run/clock ]] || echo +0 >/run/clock
    export LD_PRELOAD=/usr/\$LIB/faketime/libfaketimeMT.so.1 FAKETIME_TIMESTAMP_FILE=/run/clock FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1
}

# Anyone may open the socket, as anyone may open the port: the token decides.
run_slurmrestd() {
    wait_for 240 slurmctld bash -c 'exec 3<>/dev/tcp/slurmctld/6817'
    rm -f /shared/slurmrestd/slurmrestd.sock
    umask 0
    # One heap for all its threads, which is kept between two listings: without this it has grown by 300 MB with each listing of
    # 2,000 jobs, and takes a third longer for it.
    export MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=1073741824
    export SLURM_JWT=daemon SLURMRESTD_SECURITY=disable_unshare_sysv,disable_unshare_files
    as slurmrest slurmrestd -a rest_auth/jwt 0.0.0.0:6820 unix:/shared/slurmrestd/slurmrestd.sock
}

# Slurm wants a device file per GPU, and refuses an ordinary file.
make_fake_gpus() {
    local gpu
    for ((gpu = 0; gpu < NODE_GPUS; gpu++)); do
        [[ -e /dev/fakegpu$gpu ]] || mknod -m 0666 "/dev/fakegpu$gpu" c 195 "$gpu"
    done
}

run_slurmd() {
    start_munge
    make_fake_gpus
    wait_for 240 slurmctld bash -c 'exec 3<>/dev/tcp/slurmctld/6817'
    ((PER_CONTAINER > 1)) || exec slurmd -D -N "$(hostname)"
    run_slurmds "$(hostname)"
}

# One slurmd that ends takes the container with it, as it does where there is only one.
run_slurmds() {
    local k=${1#nodes} node
    for ((node = $(first_node "$k"); node <= $(last_node "$k"); node++)); do
        slurmd -D -N "n$node" &
    done
    wait -n
}

run_login() {
    start_munge
    exec sleep infinity
}

if [[ $1 != mariadb ]]; then prepare; fi
echo "$1" >/run/role
"run_$1"
