#!/bin/sh
# TaskProlog of a node without the SPANK plugin: the same environment for the tasks of a managed job, line by line what spank/synergy.c does.
#
# It runs as the user, before each task. Slurm takes lines "export NAME=VALUE" and "unset NAME" from its output. What it prints is names that stand here
# and numbers. It starts no other program but the one that the site has put beside it as "measure", for a job that is to measure itself, and the broker's,
# which prints such lines for a job that shares a GPU.
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

is_positive() { is_number "$1" && [ "$1" -gt 0 ]; }

# find_run reads the note of the job; where there is none, the job is not managed.
find_run() {
    round= restarts= told= measure=
    is_job "$SLURM_JOB_ID" && [ -f "$notes/$SLURM_JOB_ID" ] && [ -r "$notes/$SLURM_JOB_ID" ] || return
    while read -r line; do
        case $line in
        restarts=*) restarts=${line#restarts=} ;;
        round=*) round=${line#round=} ;;
        env=1) told=1 ;;
        measure=1) measure=1 ;;
        *) return 1 ;;
        esac
    done <"$notes/$SLURM_JOB_ID"
    [ -z "$line" ] || return # it is cut
    is_number "$restarts" && { [ -z "$round" ] || is_number "$round"; }
}

# say NAME NUMBER; without a number the name goes: it may be that of a job around this one.
say() {
    if is_number "$2"; then
        echo "export $1=$2"
    else
        echo "unset $1"
    fi
}

# tasks_on_node: a managed job has as many on each of its nodes.
tasks_on_node() {
    tasks=${SLURM_STEP_TASKS_PER_NODE-$SLURM_TASKS_PER_NODE}
    tasks=${tasks%%[(,]*}
    is_positive "$tasks" || tasks=1
}

# cores_of_task: what the step says, and never more than it has here.
cores_of_task() {
    threads=$SLURM_CPUS_PER_TASK
    is_positive "$threads" && [ "$threads" -le "$cores" ] && return
    tasks_on_node
    threads=$((cores / tasks))
    [ "$threads" -gt 0 ] || threads=1
}

memory_on_node() {
    memory=$SLURM_MEM_PER_NODE
    is_positive "$memory" && return
    memory=
    if is_positive "$SLURM_MEM_PER_CPU"; then memory=$((SLURM_MEM_PER_CPU * cores)); fi
}

# gpus_on_node counts a GPU that the job shares as one: to Slurm a part of one is none.
gpus_on_node() {
    gpus=$SLURM_GPUS_ON_NODE
    is_number "$gpus" && return
    if is_positive "$SLURM_SHARDS_ON_NODE"; then gpus=1; else gpus=0; fi
}

# is_ours NAME VALUE: have we set it for the batch script around this step? Then the user has not.
is_ours() {
    is_number "$2" || return
    case " $SYNERGY_SET " in
    *" $1=$2 "*) ;;
    *) return 1 ;;
    esac
}

# say_thread NAME GIVEN VALUE sets how many threads a task should start, unless the user has said.
say_thread() {
    [ -z "$2" ] || is_ours "$1" "$3" || return
    echo "export $1=$threads"
    ours="$ours${ours:+ }$1=$threads"
}

# measure_task starts what measures the task: the process that has started this script, and is about to become it. Of several tasks each would be a
# part of what is measured.
measure_task() {
    [ -n "$measure" ] && [ -x "${0%/*}/measure" ] || return
    case ${SLURM_STEP_NUM_TASKS-1} in
    0 | 1 | *[!0-9]* | '') "${0%/*}/measure" measure --pid "$PPID" </dev/null >/dev/null 2>&1 & ;;
    esac
}

# tell_turns has the broker say what a job needs that shares a GPU, or what one must forget that was submitted from inside of such a job. Any other
# job costs it nothing.
tell_turns() {
    [ -e "$stamps/$SLURM_JOB_ID.json" ] || [ -n "$SYNERGY_TURN_SOCK$SYNERGY_SHARE_SET" ] || return
    [ -x "$broker" ] && "$broker" env </dev/null 2>/dev/null
}

# tell says what the task was given.
tell() {
    cores=$SLURM_CPUS_ON_NODE
    is_positive "$cores" || return
    cores_of_task
    memory_on_node
    ours=
    say_thread OMP_NUM_THREADS "${OMP_NUM_THREADS+given}" "$OMP_NUM_THREADS"
    say_thread MKL_NUM_THREADS "${MKL_NUM_THREADS+given}" "$MKL_NUM_THREADS"
    say_thread SRUN_CPUS_PER_TASK "${SRUN_CPUS_PER_TASK+given}" "$SRUN_CPUS_PER_TASK"
    if [ -n "$ours" ]; then echo "export SYNERGY_SET=$ours"; else echo "unset SYNERGY_SET"; fi
    gpus_on_node
    say SYNERGY_CPUS "$cores"
    say SYNERGY_MEMORY_MB "$memory"
    say SYNERGY_GPUS "$gpus"
    say SYNERGY_ROUND "$round"
    say SYNERGY_RESTARTS "$restarts"
}

# forget_ours takes away what a job inherits that does not want to be told, from one that was: whoever submits a job from inside of another hands on all
# that was set for that one.
forget_ours() {
    [ -n "$SYNERGY_SET" ] || return
    ! is_ours OMP_NUM_THREADS "$OMP_NUM_THREADS" || echo "unset OMP_NUM_THREADS"
    ! is_ours MKL_NUM_THREADS "$MKL_NUM_THREADS" || echo "unset MKL_NUM_THREADS"
    ! is_ours SRUN_CPUS_PER_TASK "$SRUN_CPUS_PER_TASK" || echo "unset SRUN_CPUS_PER_TASK"
    for name in CPUS MEMORY_MB GPUS ROUND RESTARTS SET; do echo "unset SYNERGY_$name"; done
}

echo "unset SLURM_SCRIPT_CONTEXT" # Slurm means it for this script, and leaves it to the task
tell_turns
find_run || told= measure=
if [ -n "$told" ]; then tell; else forget_ours; fi
measure_task
exit 0
