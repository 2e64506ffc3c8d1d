-- Settings of job_submit.lua. Copy this file beside it (usually /etc/slurm) and
-- restart slurmctld, or touch job_submit.lua, to have it read.
--
-- Without this file, or without one of its keys, the values below apply. A key
-- of the wrong type is logged by slurmctld and its default is used.
return {
    -- Partitions in which a job may opt in. Jobs elsewhere are never touched.
    managed_partitions = { "synergy" },

    -- How long a job waits for the daemon before Slurm may start it on its own:
    -- two rounds, and the longest restart of the daemon that you expect.
    lease_seconds = 900,

    -- Who may change a managed job beside root and SlurmUser: the uid of the
    -- daemon's user, for example { 990 }, as `id -u synergy` prints it on the
    -- controller. Without it the daemon cannot start anybody's job.
    trusted_uids = {},

    -- The file that the daemon writes after each good round (heartbeat in
    -- synergy-slurmd.yaml). When it is missing, or older than so many seconds,
    -- jobs pass as if there were no daemon. Empty: every job is gated, and starts
    -- when its lease lapses. slurmctld opens it at each submit and waits for that:
    -- name a file on a disk of this very host, never on a network file system, in
    -- a folder that nobody but the daemon or root can write to. Two or three rounds
    -- are a good age.
    heartbeat_file = "",
    heartbeat_seconds = 900,

    -- The list of profiles that the daemon writes after each good round
    -- (profiles_file in synergy-slurmd.yaml). With it a job that names a profile
    -- that there is not is refused at once, with the nearest names. A list that
    -- is missing, or older than heartbeat_seconds, refuses nobody. What holds for
    -- the heartbeat's folder holds for this one's.
    profiles_file = "",

    -- Whether a user who declares no checkpoint is told in one line what that
    -- costs.
    hints = true,

    -- Whether parts of GPUs are the daemon's alone to give: a job of anybody else
    -- that asks for gres/shard in a managed partition is refused, with what to say
    -- instead. For sites on which jobs share GPUs (share in synergy-slurmd.yaml).
    -- Root, SlurmUser and trusted_uids may ask for them all the same.
    keep_shards = false,
}
