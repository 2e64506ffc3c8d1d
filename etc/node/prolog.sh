#!/bin/sh
# Prolog of a node without the SPANK plugin: keeps what the tasks of a managed job need of its annotation, for task_prolog.sh.
#
# It runs as root, and everything in SLURM_JOB_COMMENT and SLURM_JOB_EXTRA may have been written by a user who means harm. So these are compared and
# cut, and neither evaluated nor written anywhere: what is written is digits. What of it is JSON, the broker's program
# reads, which stamps the jobs that share a GPU (share/node). A prolog that fails drains the node; this one ends well whatever happens.
notes=/run/synergy-jobs
broker=/usr/lib/synergy/node/synergy-broker # of jobs that share a GPU; a node may be without
stamps=/run/synergy-broker/jobs

# is_number TEXT: one to nine digits without a leading zero, and nothing else.
is_number() {
    case $1 in
    '' | *[!0-9]* | 0?* | ??????????*) return 1 ;;
    esac
}

# is_job TEXT: one to ten digits without a leading zero: in a federation the number of a job has ten.
is_job() {
    case $1 in
    '' | *[!0-9]* | 0* | ???????????*) return 1 ;;
    esac
}

# has_word COMMENT PATTERN: has it such a word? Words end where the gate and the daemon end them.
has_word() (
    set -f
    IFS=$(printf ', \t\n\v\f\r.')
    IFS=${IFS%.}
    for word in $1; do
        case $word in
        $2) exit 0 ;;
        esac
    done
    exit 1
)

# is_ours COMMENT: has it our directive, and not the word that switches us off? told is whether its tasks are to find in their environment what they
# were given.
is_ours() {
    told=
    has_word "$1" 'synergy-profile=*' && ! has_word "$1" synergy-env=off || return
    ! has_word "$1" synergy-env=on || told=1
}

# read_annotation EXTRA sets round, which is empty in the annotation of a job that only the gate has seen, and measure, where the daemon wants the job
# measured. No text in an annotation can have a quotation mark as it is, so what looks like that wish is it; and what is started for it asks again.
read_annotation() {
    round= measure=
    case $1 in
    '{"v":1,"lua":1,'*) return 0 ;;
    '{"v":1,"lua":0,"job":'"$SLURM_JOB_ID"',"round":'*,*) ;;
    *) return 1 ;;
    esac
    round=${1#'{"v":1,"lua":0,"job":'"$SLURM_JOB_ID"',"round":'}
    round=${round%%,*}
    case $1 in
    *',"measure":1,'* | *',"measure":1}'*) measure=1 ;;
    esac
    is_number "$round"
}

write_note() {
    umask 022
    mkdir -p "$notes" || return
    fresh=$notes/.$SLURM_JOB_ID.$$
    {
        echo "restarts=$restarts"
        [ -z "$round" ] || echo "round=$round"
        [ -z "$told" ] || echo "env=1"
        [ -z "$measure" ] || echo "measure=1"
    } >"$fresh" && mv -f "$fresh" "$notes/$SLURM_JOB_ID"
}

# may_share says whether the broker's program has to look: the annotation has the word, or a run before has left its stamp.
may_share() {
    [ -x "$broker" ] || return
    case $SLURM_JOB_EXTRA in
    *'"share":'*) ;;
    *) [ -e "$stamps/$SLURM_JOB_ID.json" ] ;;
    esac
}

# keep_stamp has the broker's program stamp the job. Where that fails the job uses its GPU out of turn, and the administrator hears why: in one line of
# at most 300 bytes that can be printed, whatever the program says. A log that is not there, or does not take it within two seconds, changes nothing.
keep_stamp() {
    said=$("$broker" stamp </dev/null 2>&1 >/dev/null) && return
    said="prolog of job $SLURM_JOB_ID: ${said:-synergy-broker stamp ended with $? and said nothing}"
    said=$(printf %s "$said" | LC_ALL=C tr -c ' -~' ' ' | head -c 300)
    timeout 2 logger -t synergy-broker -p daemon.warning -- "$said" </dev/null >/dev/null
}

is_job "$SLURM_JOB_ID" || exit 0
may_share && keep_stamp 2>/dev/null
rm -f "$notes/$SLURM_JOB_ID" # of a run before, whose epilog did not come about
restarts=$SLURM_JOB_RESTART_COUNT
is_number "$restarts" || restarts=0
if is_ours "$SLURM_JOB_COMMENT" && read_annotation "$SLURM_JOB_EXTRA"; then
    write_note
fi
exit 0
