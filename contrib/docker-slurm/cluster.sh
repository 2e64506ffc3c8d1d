#!/bin/bash
# A Slurm cluster in containers: up, down, status, logs, shell, exec, rest-url.
# See docs/cluster.md.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
REPO=$(cd "$here/../.." && pwd)
PROJECT=${PROJECT:-synergy}
NODES=${NODES:-4}
PER_CONTAINER=${PER_CONTAINER:-1}
NODE_CPUS=${NODE_CPUS:-24}
NODE_MEMORY=${NODE_MEMORY:-500000}
NODE_GPUS=${NODE_GPUS:-8}
NODE_DEVICES=${NODE_DEVICES:-no}
LEASE=${LEASE:-900}
TOKEN_LIFESPAN=${TOKEN_LIFESPAN:-3600}
MIN_JOB_AGE=${MIN_JOB_AGE:-3600}
FAKE_CLOCK=${FAKE_CLOCK:-no}
INTERVALS=${INTERVALS:-short}
SLURM=${SLURM:-24.11}
TORCH=${TORCH:-no}
export REPO PROJECT NODES PER_CONTAINER NODE_CPUS NODE_MEMORY NODE_GPUS NODE_DEVICES LEASE TOKEN_LIFESPAN MIN_JOB_AGE FAKE_CLOCK SCHEDULER

say() { echo "cluster $PROJECT: $*"; }
die() {
    echo "cluster $PROJECT: $*" >&2
    exit 1
}

# quietly WHAT COMMAND... shows a command's output only when it fails.
quietly() {
    local what=$1 log
    shift
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        die "$what failed"
    fi
    rm -f "$log"
}

# --- image -------------------------------------------------------------------

# Each Slurm is that of a Debian release.
case $SLURM in
24.11) suite=trixie ;;
26.05) suite=forky ;;
*) die "SLURM=$SLURM: want 24.11 or 26.05" ;;
esac
case $INTERVALS in
short) SCHEDULER=batch_sched_delay=1,sched_interval=5,bf_interval=5 ;;
slurm) SCHEDULER=bf_continue ;; # and all else as Slurm has it
*) die "INTERVALS=$INTERVALS: want short or slurm" ;;
esac
case $NODE_DEVICES in
yes | no) ;;
*) die "NODE_DEVICES=$NODE_DEVICES: want yes or no" ;;
esac
case $TORCH in
no) stage=cluster ;;
yes) stage=torch ;;
*) die "TORCH=$TORCH: want yes or no" ;;
esac
base_here=synergy-slurm-base:$suite
base_public=debian:$suite-slim

have_image() { docker image inspect "$1" >/dev/null 2>&1; }

# What the image is made of, below the checkout.
inputs=(contrib/docker-slurm/{Dockerfile,conf,entrypoint.sh,healthy.sh,ready.sh} spank/{Makefile,synergy.c,words.c,words.h})

# The name carries a hash of everything that goes in: unchanged inputs find
# their image again, changed ones build a new one.
image_name() {
    local hash
    hash=$(cd "$REPO" && find "${inputs[@]}" -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-12)
    [[ $stage == cluster ]] || hash+=-$stage
    echo "synergy-slurm:$SLURM-$hash"
}

# The host's own Debian mirror, empty when the host is not Debian.
host_mirror() {
    grep -qx 'ID=debian' /etc/os-release 2>/dev/null || return 0
    apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 2>/dev/null |
        awk '$2 == "main" { sub("/$", "", $1); print $1; exit }'
}

# The host's own ways to reach a mirror (proxies and the like).
host_apt_conf() {
    grep -qx 'ID=debian' /etc/os-release 2>/dev/null || return 0
    apt-config dump | grep -E '^Acquire::(https?::|Check-)' || true
}

install_debootstrap() {
    apt-get -q update
    apt-get -q install -y --no-install-recommends debootstrap
}

debootstrap_base() {
    local root
    say "no $base_public to be had: making the base with debootstrap"
    command -v debootstrap >/dev/null || quietly "installing debootstrap" install_debootstrap
    root=$(mktemp -d)
    # A debootstrap that is older than the release has no script of that name; all since Debian 9 are alike.
    quietly debootstrap debootstrap --variant=minbase "$suite" "$root" "$(host_mirror)" /usr/share/debootstrap/scripts/sid
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar -C "$root" -c . | docker import - "$base_here" >/dev/null
    rm -rf "$root"
}

# Prints the name of a base image that exists.
base_image() {
    have_image "$base_public" && { echo "$base_public"; return; }
    have_image "$base_here" && { echo "$base_here"; return; }
    docker pull -q "$base_public" 2>/dev/null && return
    debootstrap_base >&2
    echo "$base_here"
}

# docker_build TAG FLAGS... sends the inputs and nothing else of the checkout.
docker_build() {
    local tag=$1
    shift
    # Some engines cannot route out of a build network; the host's always can.
    tar -C "$REPO" -c "${inputs[@]}" | docker build --network host -t "$tag" -f contrib/docker-slurm/Dockerfile \
        --build-arg SUITE="$suite" --build-arg APT_MIRROR="$(host_mirror)" --build-arg APT_CONF="$(host_apt_conf)" "$@" -
}

build_image() {
    local base
    base=$(base_image)
    say "building $IMAGE on $base"
    quietly "building $IMAGE" docker_build "$IMAGE" --target "$stage" --build-arg BASE="$base"
}

# The SPANK plugin for the Slurm of the cluster, built where its headers are.
spank() { # FILE
    local base id
    base=$(base_image)
    quietly "building the plugin" docker_build synergy-slurm-spank --target spank --build-arg BASE="$base"
    id=$(docker create synergy-slurm-spank true)
    quietly "copying the plugin" docker cp "$id:/synergy.so" "$1"
    docker rm "$id" >/dev/null
}

# --- containers --------------------------------------------------------------

mine() { echo "label=com.docker.compose.project=$PROJECT"; }

container() { # ROLE
    local id
    id=$(docker ps -q --filter "$(mine)" --filter "label=com.docker.compose.service=$1")
    [[ -n $id ]] || die "no running container for role $1"
    echo "$id"
}

# One container per node is called as the node; one that holds several, nodes1, nodes2, …
compose_file() {
    local k name=n
    ((PER_CONTAINER > 1)) && name=nodes
    cat "$here/compose.yml"
    for ((k = 1; k <= (NODES + PER_CONTAINER - 1) / PER_CONTAINER; k++)); do
        printf '  %s%d:\n    <<: *node\n    hostname: %s%d\n' "$name" "$k" "$name" "$k"
    done
}

compose() {
    local command=(docker-compose)
    docker compose version >/dev/null 2>&1 && command=(docker compose)
    compose_file | "${command[@]}" -p "$PROJECT" --project-directory "$here" -f - "$@"
}

running_settings() {
    docker ps --filter "$(mine)" --format '{{.Label "synergy.cluster.settings"}}' | sort -u
}

# Containers are never recreated: docker-compose 1.29 stumbles over that with
# newer engines. What runs stays, what is half there goes.
clear_the_way() {
    local all running
    all=$(docker ps -aq --filter "$(mine)" | wc -l)
    running=$(docker ps -q --filter "$(mine)" | wc -l)
    ((all == 0)) && return
    if ((running < all)); then
        say "only $running of $all containers run: starting afresh"
        down
    elif [[ $(running_settings) != "$SETTINGS" ]]; then
        die "is up with other settings ($(running_settings)); make cluster-down first"
    fi
}

wait_until_ready() {
    local deadline=$((SECONDS + 240 + NODES)) missing="" login
    login=$(container login)
    until missing=$(docker exec "$login" ready.sh 2>&1); do
        ((SECONDS < deadline)) || { logs --tail 5 >&2; die "not ready: $missing"; }
        sleep 0.5
    done
}

summary() {
    cat <<TEXT
cluster $PROJECT is up: Slurm $SLURM, $NODES nodes (n1-n$NODES), each $NODE_CPUS CPUs, $NODE_MEMORY MB, $NODE_GPUS GPUs
  REST    $(rest_url)   token of user synergy: /shared/synergy/token in any role
  shell   make shell PROJECT=$PROJECT          (alice on the login role)
  submit  sbatch --gres=gpu:1 --comment=synergy-profile=NAME.json job.sh
  stop    make cluster-down PROJECT=$PROJECT
TEXT
}

# --- commands ----------------------------------------------------------------

image() {
    IMAGE=$(image_name)
    have_image "$IMAGE" || build_image
}

up() {
    image
    SETTINGS="$IMAGE nodes=$NODES/$PER_CONTAINER cpus=$NODE_CPUS memory=$NODE_MEMORY gpus=$NODE_GPUS/$NODE_DEVICES lease=$LEASE token=$TOKEN_LIFESPAN age=$MIN_JOB_AGE scheduler=$SCHEDULER clock=$FAKE_CLOCK"
    export IMAGE SETTINGS
    mkdir -p "$REPO/bin" "$REPO/etc"
    clear_the_way
    quietly "starting the containers" compose up -d --no-recreate
    wait_until_ready
    summary
}

# By label and not through compose, so that it also clears a start that broke
# half way, or a cluster of another size.
down() {
    docker ps -aq --filter "$(mine)" | xargs -r docker rm -f -v >/dev/null
    docker volume ls -q --filter "$(mine)" | xargs -r docker volume rm -f >/dev/null
    local network
    for network in $(docker network ls -q --filter "$(mine)"); do
        remove_network "$network"
    done
}

# remove_network ID. On a busy machine an endpoint may outlive its container for a moment; and an engine that has lost
# count of them keeps the network, though nothing is on it, until it is started anew. The next cluster uses it again.
remove_network() {
    local tries on
    for tries in {1..10}; do
        docker network rm "$1" >/dev/null 2>&1 && return
        sleep 1
    done
    on=$(docker network inspect -f '{{range .Containers}}{{.Name}} {{end}}' "$1" 2>/dev/null) || return 0
    [[ -z $on ]] || die "its network $1 is in use by $on"
    say "its network $1 stays: the engine counts an endpoint of a container that is gone" >&2
}

status() {
    local login
    docker ps -a --filter "$(mine)" --format 'table {{.Label "com.docker.compose.service"}}\t{{.Status}}'
    login=$(container login)
    docker exec "$login" sinfo
}

logs() {
    local id role
    docker ps -a --filter "$(mine)" --format '{{.ID}} {{.Label "com.docker.compose.service"}}' |
        while read -r id role; do
            docker logs "$@" "$id" 2>&1 | sed "s/^/$role | /"
        done
}

shell() {
    local login
    login=$(container login)
    exec docker exec -it -u alice -w /shared/home/alice "$login" bash -l
}

rest_url() {
    local slurmrestd address='{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'
    slurmrestd=$(container slurmrestd)
    echo "http://$(docker inspect -f "$address" "$slurmrestd"):6820"
}

run_in() { # ROLE USER COMMAND...
    local id user=$2 terminal=()
    id=$(container "$1")
    shift 2
    # At a terminal the command gets one too, so that an interrupt reaches it.
    [ -t 0 ] && [ -t 1 ] && terminal=(-t)
    exec docker exec -i "${terminal[@]}" -u "$user" "$id" "$@"
}

# The images that this script made. A cluster that runs keeps its own.
clean() {
    docker images --format '{{.Repository}}:{{.Tag}}' --filter reference='synergy-slurm*' | xargs -r docker image rm
}

command=${1:-}
shift || true
case $command in
image) image ;;
spank) spank "$@" ;;
up) up ;;
down) down ;;
status) status ;;
logs) logs "$@" ;;
shell) shell ;;
clean) clean ;;
exec) run_in "$@" ;;
rest-url) rest_url ;;
*) die "usage: cluster.sh image|spank FILE|up|down|status|logs|shell|clean|exec ROLE USER COMMAND...|rest-url" ;;
esac
