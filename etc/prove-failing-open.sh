#!/bin/bash
# prove-failing-open [--partition P] [--account A] [--user U] [--gpus N] [--hold S] [--patience S] [--yes]
#
# Shows on this site that jobs start when the daemon dies: submits one small job, waits until the daemon has put it under
# the lease, kills the daemon as a crash would, waits until Slurm has started the job as it was requested, and starts the
# daemon again, whatever happens. Run it as root on the daemon's host. It takes about as long as a lease. It touches no
# other job, but the lease of all waiting jobs ends too, as it would in earnest.
#
# Exit status: 0 proved, 1 not proved (the last line says why), 2 wrong usage.
set -euo pipefail

unit=synergy-slurmd.service
partition="" account="" user=${SUDO_USER:-} gpus=1 hold=60 patience=600 yes=""
say() { echo "$(date +%T) $*"; }
usage() {
    echo "prove-failing-open: $*" >&2
    exit 2
}
not_proved() {
    echo "not proved: $*" >&2
    exit 1
}

while (($#)); do
    case $1 in
    --yes) yes=1 && shift && continue ;;
    --partition | --account | --user | --gpus | --hold | --patience) ;;
    *) usage "$1: want --partition, --account, --user, --gpus, --hold, --patience or --yes" ;;
    esac
    [[ ${2:-} =~ ^[A-Za-z0-9_.][A-Za-z0-9_.-]*$ ]] || usage "$1 ${2:-}: want the name of one, or a number"
    case $1 in
    --partition) partition=$2 ;;
    --account) account=$2 ;;
    --user) user=$2 ;;
    *) [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || usage "$1 $2: want a number of 1 or more" ;;&
    --gpus) gpus=$2 ;;
    --hold) hold=$2 ;;   # seconds for which the job itself asks not to be started: the daemon must lease it before
    --patience) patience=$2 ;; # seconds for each of the waits, beyond the lease
    esac
    shift 2
done
((EUID == 0)) || usage "run it as root: it stops and starts $unit"
systemctl is-active --quiet "$unit" || not_proved "$unit does not run: nothing would be proved"
flags=$(tr '\0' ' ' <"/proc/$(systemctl show --property=MainPID --value "$unit")/cmdline")
[[ $flags != *--shadow* ]] || not_proved "the daemon is in the shadow, and leases nothing"
as_user=()
[[ -z $user || $user == root ]] || as_user=(runuser -u "$user" --)

# --- what Slurm shows of a job -------------------------------------------------

look() { SLURM_TIME_FORMAT=%s scontrol --oneliner show job "$1"; }

# key KEY <LINE: the first of these keys; what a user has written comes behind all that Slurm says.
key() { awk -v k="$1=" -v RS='[ \n]' '!found && index($0, k) == 1 { print substr($0, length(k) + 1); found = 1 }'; }

# request: what a job asks for, in Slurm's words.
request() {
    local line key
    line=$(look "$1")
    for key in NumTasks CPUs/Task ReqTRES MinCPUsNode MinMemoryNode TresPerNode Partition TimeLimit ReqNodeList; do
        echo "$key=$(key "$key" <<<"$line")"
    done
}

# until SECONDS WHAT COMMAND...: waits until the command succeeds.
until_true() {
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ((SECONDS < until)) || not_proved "waited in vain until $what"
        sleep 1
    done
}

# --- the job -------------------------------------------------------------------

cat <<EOF
This submits a job of $gpus GPU(s), kills $unit for about as long as a lease, and starts it again.
The lease of all waiting managed jobs ends too: Slurm starts them as they were requested, as it has room.
EOF
if [[ -z $yes ]]; then
    read -rp "Go on? [y/N] " answer
    [[ $answer == y ]] || not_proved "nothing was done: say y, or --yes"
fi

# A shell inside of a job would make another job of it.
unset "${!SLURM_@}" "${!SBATCH_@}"
submit=(sbatch --parsable --job-name=synergy-proof --comment=synergy-profile=auto --nodes=1 --ntasks=1
    --cpus-per-task=1 --mem=64M --gres="gpu:$gpus" --time=1 --no-requeue --chdir=/ --output=/dev/null
    --begin="now+$hold")
[[ -z $partition ]] || submit+=(--partition="$partition")
[[ -z $account ]] || submit+=(--account="$account")
job=$("${as_user[@]}" "${submit[@]}" <<<$'#!/bin/sh\nexit 0') || not_proved "the job was not submitted"
job=${job%%;*}
say "job $job is submitted"
trap 'scancel --quiet "$job" || true' EXIT

# The job is under the lease when it depends on the lease job, or its begin time is later than its user's own.
own=$(($(date +%s) + hold))
lease_end() {
    local line dependency deadline begin
    line=$(look "$job")
    [[ $(key JobState <<<"$line") == PENDING ]] || not_proved "job $job does not wait any more: nobody leased it"
    [[ $line == *' Extra={'*'"v":1'* ]] || return 1 # the daemon's annotation
    dependency=$(key Dependency <<<"$line" | grep -o 'afterany:[0-9]*' | tail -n 1 | cut -d: -f2) || true
    if [[ -n $dependency && $(look "$dependency" | key JobName) == synergy-slurmd-lease ]]; then
        deadline=$(look "$dependency" | key Deadline)
        lease=$((deadline - 60)) late=60 # Slurm looks for deadlines once a minute
        return 0
    fi
    begin=$(key EligibleTime <<<"$line")
    [[ $begin =~ ^[0-9]+$ ]] && ((begin > own + 2)) && lease=$begin late=0
}
lease="" late=0
until_true "$patience" "the daemon has leased job $job: is its partition managed, and is it in the canary?" lease_end
asked=$(request "$job")
say "job $job waits under a lease until $(date -d "@$lease" +%T)"

# --- the daemon's end ----------------------------------------------------------

# systemd must not restart it, and must start it should this script be killed: a timer does that.
dropin=/run/systemd/system/$unit.d/proof.conf
minutes=$(((lease - $(date +%s) + late + patience) / 60 + 2))
start_again() {
    rm -f "$dropin"
    systemctl daemon-reload
    systemctl start "$unit"
    systemctl stop synergy-proof-$$.timer 2>/dev/null || true
}
trap 'start_again; scancel --quiet "$job" || true' EXIT
trap 'exit 1' HUP INT TERM
systemd-run --quiet --unit=synergy-proof-$$ --on-active="${minutes}m" /bin/sh -c "rm -f $dropin; systemctl daemon-reload; systemctl start $unit"
mkdir -p "${dropin%/*}"
printf '[Service]\nRestart=no\n' >"$dropin"
systemctl daemon-reload
systemctl kill --signal=KILL "$unit"
until_true 30 "$unit is dead" bash -c "! systemctl is-active --quiet $unit"
stopped=$(date +%s)
((lease + 2 > stopped)) || not_proved "the lease was over before the daemon was killed"
say "the daemon is dead"

started() {
    local line
    line=$(look "$job")
    case $(key JobState <<<"$line") in RUNNING | COMPLETING | COMPLETED | FAILED | TIMEOUT) ;; *) return 1 ;; esac
    start=$(key StartTime <<<"$line")
}
wait=$((lease - stopped))
until_true $(((wait > 0 ? wait : 0) + late + patience)) "job $job has started; Slurm says: $(look "$job" | key Reason)" started
((start + 2 >= stopped)) || not_proved "job $job started before the daemon was killed"
systemctl is-active --quiet "$unit" && not_proved "the daemon was started again by somebody else"
had=$(request "$job")
[[ $had == "$asked" ]] || not_proved "job $job did not start as requested: $(diff <(echo "$asked") <(echo "$had") | grep '^[<>]' | tr '\n' ' ')"

start_again
until_true "$patience" "the daemon runs again" systemctl is-active --quiet "$unit"
trap 'scancel --quiet "$job" || true' EXIT
say "proved: job $job started $((start - stopped)) s after the daemon's death, $((start > lease ? start - lease : 0)) s after its lease was over, as requested"
