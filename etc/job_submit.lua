--[==[
Slurm's job_submit plugin for synergy-slurmd: the gate and the veto.

At submit, a job that opts in by a word in its comment is checked, and its begin
time is moved into the future, so that the daemon can size and place it before
Slurm starts it. The daemon keeps renewing that begin time; when it dies, the
time passes and Slurm starts the job as it was asked for. Afterwards, the owner
of such a job may not change what the daemon decides.

Everything else is left alone: a job without a `synergy-` word, or outside the
managed partitions, leaves this file exactly as it came in.

    synergy-profile=NAME.json              opts in; the sensitivity profile
    synergy-checkpoint[=SIGNAL[@GRACE]]    saves on SIGNAL (USR1) in GRACE s (60)
    synergy-length=NUMBERs|m|h|d           expected run at the proportional share
    synergy-progress[=ITERATIONS@EPOCH]    how far a running job has come; at
                                           submission the bare word: it will say
    synergy-env=off                        its nodes leave the job's environment
                                           alone

Words are separated by spaces or commas; words without our prefix are the user's.

What an owner may change on a managed job: name, comment (as long as our words
stay), time limit, dependency, mail, account, QOS, WCKey, licences, nice, and
holding and releasing it; a hold gains nothing over other jobs, and whoever
submits with -H must be able to release. What decides who runs, where and with
how much (`vetoed` below) is the daemon's. scancel and scontrol requeue do not
pass through here.

Not seen by this file, because Slurm 24.11 does not show it to lua: --core-spec
(Slurm itself drops it unless AllowSpecResourcesUsage is set) and --deadline.

Where the settings name a heartbeat of the daemon, and it is stale, everything
passes as if there were no daemon: no check, no gate, no veto.

A mistake in here must not stop a site: a submit that runs into an error passes
ungated, an owner's update that runs into one is refused, and both are logged.

Settings: synergy_settings.lua in the same folder. Lua 5.1 and later.
]==]

local defaults = {
    managed_partitions = { "synergy" },
    lease_seconds = 900,
    trusted_uids = {},
    heartbeat_file = "",
    heartbeat_seconds = 900,
}

-- Slurm's ways to say "not given"; which one depends on the field's width.
local NO_VAL, NO_VAL16 = slurm.NO_VAL, slurm.NO_VAL16

-- Limits of the comment, the same as the daemon's own.
local MAX_COMMENT, MAX_WORD, MAX_GRACE = 4096, 128, 3600

local SIGNALS = { USR1 = true, USR2 = true, HUP = true, INT = true, TERM = true }

--------------------------------------------------------------------- settings

local function folder_of_this_file()
    local source = debug.getinfo(1, "S").source
    return source:match("^@(.*/)") or "/etc/slurm/"
end

local function exists(path)
    local file = io.open(path)
    if file then file:close() end
    return file ~= nil
end

local function read_settings(path)
    if not exists(path) then return {} end
    local loaded, settings = pcall(dofile, path)
    if loaded and type(settings) == "table" then return settings end
    slurm.log_error("synergy: %s is broken, defaults apply: %s", path, tostring(settings))
    return {}
end

local function warn_of_unknown(given)
    for key in pairs(given) do
        if defaults[key] == nil then slurm.log_error("synergy: there is no setting %s", tostring(key)) end
    end
end

local function with_defaults(given)
    warn_of_unknown(given)
    local settings = {}
    for key, default in pairs(defaults) do
        settings[key] = default
        if type(given[key]) == type(default) then
            settings[key] = given[key]
        elseif given[key] ~= nil then
            slurm.log_error("synergy: setting %s is not a %s, its default applies", key, type(default))
        end
    end
    return settings
end

local function set_of(list)
    local set = {}
    for _, member in ipairs(list) do set[member] = true end
    return set
end

-- slurmctld runs as SlurmUser, so the process itself knows that uid.
local function own_uid()
    local status = io.open("/proc/self/status")
    if not status then return nil end
    local text = status:read("*a")
    status:close()
    return tonumber(text:match("Uid:%s+(%d+)"))
end

local function trusted(uids)
    local set = set_of(uids)
    set[0] = true
    local slurm_user = own_uid()
    if slurm_user then set[slurm_user] = true end
    return set
end

local settings = with_defaults(read_settings(folder_of_this_file() .. "synergy_settings.lua"))
local managed_partition = set_of(settings.managed_partitions)
local is_trusted = trusted(settings.trusted_uids)

-------------------------------------------------------------------- heartbeat

-- The first line of the file, or nil. It is short: no more than that is read,
-- whatever stands under that name. (Opening a FIFO would wait for its writer, and
-- nothing in Lua can tell beforehand; so its folder must be in good hands.)
local function first_line(path)
    local file = io.open(path)
    if not file then return nil end
    local text = file:read(24)
    file:close()
    return text and text:match("^(%d+)\n")
end

-- A time stamp from the future is no sign of life either, beyond what clocks
-- differ by.
local function is_away()
    if settings.heartbeat_file == "" then return false end
    local beat = tonumber(first_line(settings.heartbeat_file) or "")
    return not beat or math.abs(os.time() - beat) > settings.heartbeat_seconds
end

local was_away = false

-- The log says when this changes, and not with each job.
local function daemon_is_away()
    local away = is_away()
    if away ~= was_away then
        slurm.log_info("synergy: %s", away and "no heartbeat of the daemon, jobs pass ungated"
            or "the daemon's heartbeat is back, jobs are gated")
    end
    was_away = away
    return away
end

------------------------------------------------------------------------ words

-- Our words in the order in which they stand.
local function our_words(comment)
    local words = {}
    for word in (comment or ""):gmatch("[^%s,]+") do
        if word:sub(1, 8) == "synergy-" then words[#words + 1] = word end
    end
    return words
end

local function has_word(comment, name)
    for _, word in ipairs(our_words(comment)) do
        if word:match("^[^=]*") == name then return true end
    end
    return false
end

local function is_report(word)
    return word == "synergy-progress" or word:sub(1, 17) == "synergy-progress="
end

-- Our words but for the report, which a job may change while it runs.
local function lasting_words(comment)
    local words = {}
    for _, word in ipairs(our_words(comment)) do
        if not is_report(word) then words[#words + 1] = word end
    end
    return words
end

local function same_words(one, other)
    local a, b = lasting_words(one), lasting_words(other)
    table.sort(a)
    table.sort(b)
    return table.concat(a, " ") == table.concat(b, " ")
end

-- Each check of a value returns nil, or what would be right.
local function check_profile(value, word)
    local right = "a profile's file name, for example synergy-profile=resnet18.json, "
        .. "of letters, digits, dots, dashes and underscores, without a path, "
        .. "and the whole word no longer than " .. MAX_WORD .. " characters"
    if #word > MAX_WORD then return right end
    if not value or not value:match("^%w[%w._-]*%.json$") or value:find("..", 1, true) then
        return right
    end
end

local function check_checkpoint(value)
    if not value then return nil end
    local signal, grace = value:match("^(%u+%d?)@([1-9]%d*)$")
    signal = signal or value
    if not SIGNALS[signal] or tonumber(grace or 1) > MAX_GRACE then
        return "synergy-checkpoint, or a signal of USR1, USR2, HUP, INT and TERM with a grace of 1 to "
            .. MAX_GRACE .. " whole seconds, for example synergy-checkpoint=USR1@60"
    end
end

local function check_length(value)
    local number = value and (value:match("^(%d+)[smhd]$") or value:match("^(%d+%.%d+)[smhd]$"))
    if not number or tonumber(number) <= 0 then
        return "a positive number and its unit s, m, h or d, for example synergy-length=2.5h"
    end
end

local function check_progress(value)
    if not value then return nil end
    local iterations, epoch = value:match("^(%d+)@([1-9]%d*)$")
    if not iterations or iterations:match("^0%d") or #iterations > 15 or #epoch > 11 or tonumber(epoch) > 2^33 then
        return "the iterations so far, @ and the seconds since the epoch, for example synergy-progress=1200@1767268800"
    end
end

local function check_env(value)
    if value ~= "off" then return "synergy-env=off, or no such word" end
end

local check_of_word = {
    ["synergy-env"] = check_env,
    ["synergy-progress"] = check_progress,
    ["synergy-profile"] = check_profile,
    ["synergy-checkpoint"] = check_checkpoint,
    ["synergy-length"] = check_length,
}

local function shortened(word)
    if #word <= 60 then return word end
    return word:sub(1, 60) .. "…"
end

local function complaint_about_word(word, seen)
    local name, value = word:match("^([^=]+)=(.*)$")
    name = name or word
    local check = check_of_word[name]
    if not check then
        return "is not a word that I know; there are synergy-profile, synergy-checkpoint, synergy-length, synergy-progress and synergy-env"
    end
    if seen[name] then return "comes after another " .. name .. "; give it once" end
    seen[name] = true
    local right = check(value, word)
    return right and "is not right; it should be " .. right
end

local function complaint_about_comment(comment)
    if #comment > MAX_COMMENT then
        return "the comment is longer than " .. MAX_COMMENT .. " bytes; shorten it"
    end
    if comment:find("%c") then
        return "the comment has a control character in it; separate words by spaces or commas"
    end
    local seen = {}
    for _, word in ipairs(our_words(comment)) do
        local complaint = complaint_about_word(word, seen)
        if complaint then return "the word " .. shortened(word) .. " " .. complaint end
    end
    if not seen["synergy-profile"] then
        return "the comment has a synergy word but no synergy-profile=NAME.json; add it, or drop the others"
    end
end

------------------------------------------------------------------- partitions

local function default_partition(partitions)
    for name, partition in pairs(partitions or {}) do
        if partition.flag_default == 1 then return name end
    end
end

-- How many of the named partitions are managed, and how many there are.
local function count_partitions(names)
    local managed, all = 0, 0
    for name in (names or ""):gmatch("[^,%s]+") do
        all = all + 1
        if managed_partition[name] then managed = managed + 1 end
    end
    return managed, all
end

local function in_managed_partition(names)
    return count_partitions(names) > 0
end

------------------------------------------------------------------- job shapes

local function given(value)
    return value ~= nil and value ~= NO_VAL and value ~= NO_VAL16
end

local function is_range_of_nodes(job)
    return given(job.min_nodes) and given(job.max_nodes) and job.min_nodes ~= job.max_nodes
end

local function is_exclusive(job)
    return job.shared == slurm.JOB_SHARED_NONE
        or job.shared == slurm.JOB_SHARED_USER
        or job.shared == slurm.JOB_SHARED_MCS
end

local function asks_for_whole_memory(job)
    return job.min_mem_per_node == 0 or job.min_mem_per_cpu == 0
end

local function is_alternative_constraint(job)
    for name in (job.features or ""):gmatch("[^&]+") do
        if not name:match("^[%w_.:=-]+$") then return true end
    end
    return false
end

local function is_in_several_partitions(job)
    local _, all = count_partitions(job.partition)
    return all > 1
end

-- What the daemon cannot size or restart. Each line: when, and what to do.
local refused_shapes = {
    { is_in_several_partitions, "takes jobs of one partition only; name just the one" },
    { function(job) return job.script == nil end,
        "takes batch jobs only, because an interactive one cannot be requeued; use sbatch, or leave the word out" },
    { function(job) return job.array_inx ~= nil end,
        "takes no job arrays; submit the tasks one by one, for example in a loop" },
    { function(job) return given(job.het_job_offset) end,
        "takes no heterogeneous jobs; submit without ':' parts" },
    { function(job) return job.cron_job == true end,
        "takes no scrontab jobs; let the cron job call sbatch" },
    { is_exclusive, "chooses the job's cores, so --exclusive cannot be kept; leave it out" },
    { function(job) return given(job.core_spec) or given(job.thread_spec) end,
        "cannot keep --core-spec and --thread-spec; leave them out" },
    { function(job) return job.contiguous == 1 end,
        "chooses the nodes, so --contiguous cannot be kept; leave it out" },
    { is_range_of_nodes, "needs a fixed number of nodes; give one number, for example -N 2" },
    { asks_for_whole_memory,
        "chooses the job's memory, so --mem=0 cannot be kept; name an amount, or leave it out" },
    { is_alternative_constraint,
        "understands a --constraint of plain feature names joined by & only; write it so" },
}

------------------------------------------------------------------------- GPUs

-- How many entries of a TRES text ask for GPUs ("gres/gpu:2,gres/shard:1").
local function gpu_entries(tres)
    local entries = 0
    for entry in (tres or ""):gmatch("[^,]+") do
        local amount = entry:match("^gres[/:]gpu(.*)$")
        if amount and (amount == "" or amount:match("^[:=]")) and not amount:match("[:=]0+$") then
            entries = entries + 1
        end
    end
    return entries
end

local function on_one_node(job)
    return not given(job.min_nodes) or job.min_nodes <= 1
end

-- The daemon has to know the GPUs of each node. --gres and --gpus-per-node say
-- it; --gpus and --gpus-per-task say it on one node, and the latter also where
-- the tasks of a node are counted.
local function complaint_about_gpus(job)
    local node, whole = gpu_entries(job.tres_per_node), gpu_entries(job.tres_per_job)
    local task, socket = gpu_entries(job.tres_per_task), gpu_entries(job.tres_per_socket)
    local all = node + whole + task + socket
    if all == 0 then return "takes jobs with GPUs only; ask for some, for example --gres=gpu:1, or leave the word out" end
    if socket > 0 then return "does not know --gpus-per-socket; say --gpus-per-node" end
    if all > 1 then return "needs the GPUs said once and of one kind; keep one of --gres, --gpus, --gpus-per-node, --gpus-per-task" end
    if on_one_node(job) or node > 0 then return nil end
    if whole > 0 then return "cannot tell how --gpus is split over several nodes; say --gpus-per-node" end
    if not given(job.ntasks_per_node) then
        return "cannot tell how many tasks, and so GPUs, go to each node; add --ntasks-per-node, or say --gpus-per-node"
    end
end

local function complaint_about_shape(job)
    for _, shape in ipairs(refused_shapes) do
        if shape[1](job) then return shape[2] end
    end
    return complaint_about_gpus(job)
end

----------------------------------------------------------------------- submit

local function refuse(code, ...)
    slurm.log_user("%s", "synergy: " .. table.concat({ ... }))
    return code
end

local function names_its_cpus(job)
    return given(job.cpus_per_task) or given(job.pn_min_cpus) or job.cpus_per_tres ~= nil
end

-- Slurm keeps SLURM_CPUS_PER_TASK right at every start, but only in a job that
-- was submitted with it, that is with -c; without it a re-sized job would not
-- see its cores.
local function name_its_cpus(job)
    job.cpus_per_task = 1
    job.environment["SLURM_CPUS_PER_TASK"] = "1"
end

-- The user's own begin time goes into the stamp, because the field itself is
-- ours from here on; whatever the user wrote into the stamp's place is dropped.
local function gate(job)
    local own_begin = job.begin_time or 0
    local lease_end = os.time() + settings.lease_seconds
    local stamp = string.format('{"v":1,"lua":1,"begin":%d}', own_begin)
    if not names_its_cpus(job) then name_its_cpus(job) end
    job.extra = stamp
    job.begin_time = math.max(own_begin, lease_end)
end

-- An option of the SPANK plugin that nobody has put into the comment, or nil. Without cli_filter.lua a user would wait in vain for what it asks.
local function lost_option(job)
    for _, entry in pairs(job.spank_job_env or {}) do
        local name = entry:match("^_SLURM_SPANK_OPTION_synergy_(synergy_%w+)=")
        name = name and name:gsub("_", "-")
        if name and not has_word(job.comment, name) then return name end
    end
end

local function submit(job, partitions)
    local lost = lost_option(job)
    if #our_words(job.comment) == 0 and not lost then return slurm.SUCCESS end
    if not in_managed_partition(job.partition or default_partition(partitions)) then return slurm.SUCCESS end
    if daemon_is_away() then return slurm.SUCCESS end
    if lost then
        return refuse(slurm.ESLURM_NOT_SUPPORTED, "--", lost, " did not reach the comment: there is no cli_filter.lua of ours where you submit; ",
            "say it as a word of --comment.")
    end

    local complaint = complaint_about_comment(job.comment)
    if complaint then return refuse(slurm.ESLURM_NOT_SUPPORTED, complaint, ".") end
    if job.comment:find("synergy-progress=", 1, true) then
        return refuse(slurm.ESLURM_NOT_SUPPORTED, "synergy-progress has a value only while the job runs; submit with the bare word, or without it.")
    end
    complaint = complaint_about_shape(job)
    if complaint then
        return refuse(slurm.ESLURM_NOT_SUPPORTED, "the daemon behind synergy-profile ", complaint, ".")
    end
    gate(job)
    return slurm.SUCCESS
end

function slurm_job_submit(job, partitions, submit_uid)
    local ran, verdict = pcall(submit, job, partitions)
    if ran then return verdict end
    slurm.log_error("synergy: submit of uid %s passes ungated: %s", tostring(submit_uid), tostring(verdict))
    return slurm.SUCCESS
end

----------------------------------------------------------------------- modify

-- The fields that are the daemon's, in the words of scontrol.
local vetoed = {
    { "required nodes", "req_nodes" },
    { "excluded nodes", "exc_nodes" },
    { "number of nodes", "min_nodes", "max_nodes" },
    { "number of CPUs", "min_cpus", "max_cpus", "cpus_per_task", "pn_min_cpus", "cpus_per_tres" },
    { "number of tasks", "num_tasks", "ntasks_per_node", "ntasks_per_socket", "ntasks_per_core", "ntasks_per_tres" },
    { "CPU layout", "cores_per_socket", "sockets_per_node", "threads_per_core", "core_spec", "thread_spec" },
    { "memory", "min_mem_per_node", "min_mem_per_cpu", "mem_per_tres" },
    { "GPUs", "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "tres_bind" },
    { "temporary disk", "pn_min_tmp_disk" },
    { "partition", "partition" },
    { "features", "features", "prefer", "batch_features" },
    { "reservation", "reservation" },
    { "switches", "req_switch" },
    { "sharing of nodes", "shared", "contiguous" },
    { "requeue flag", "requeue" },
    { "extra", "extra" },
}

-- A hold arrives as priority 0 and a release as the infinite one: both are the
-- owner's. Any other number is a place in the queue.
local function is_ranked(change)
    local priority = change.priority
    return given(priority) and priority ~= 0 and priority ~= slurm.INFINITE
end

-- The first thing of the daemon's that an update touches, or nil.
local function touched(change)
    if (change.begin_time or 0) ~= 0 then return "begin time" end
    if is_ranked(change) then return "priority" end
    for _, row in ipairs(vetoed) do
        for i = 2, #row do
            if given(change[row[i]]) then return row[1] end
        end
    end
end

local function is_managed(comment, partition)
    return #our_words(comment) > 0 and in_managed_partition(partition)
end

local function modify(change, job)
    local comment, partition = change.comment or job.comment, change.partition or job.partition
    if (is_managed(job.comment, job.partition) or is_managed(comment, partition)) and daemon_is_away() then
        return slurm.SUCCESS
    end

    if not is_managed(job.comment, job.partition) then
        if not is_managed(comment, partition) then return slurm.SUCCESS end
        return refuse(slurm.ESLURM_ACCESS_DENIED,
            "a job opts in when it is submitted, not later; cancel it and submit it with the word.")
    end
    local field = touched(change)
    if field then
        return refuse(slurm.ESLURM_ACCESS_DENIED, "the ", field,
            " of a job with synergy-profile is the daemon's to choose; to change it, cancel the job and submit it anew.")
    end
    if change.comment == nil then return slurm.SUCCESS end
    if not same_words(comment, job.comment) then
        return refuse(slurm.ESLURM_ACCESS_DENIED,
            "the synergy words of a comment stay as they were submitted (", table.concat(lasting_words(job.comment), " "),
            "); keep them in the new comment.")
    end
    local complaint = complaint_about_comment(comment)
    if complaint then return refuse(slurm.ESLURM_ACCESS_DENIED, complaint, ".") end
    return slurm.SUCCESS
end

function slurm_job_modify(change, job, _, uid)
    if is_trusted[uid] then return slurm.SUCCESS end
    local ran, verdict = pcall(modify, change, job)
    if ran then return verdict end
    slurm.log_error("synergy: update by uid %s refused: %s", tostring(uid), tostring(verdict))
    return refuse(slurm.ESLURM_ACCESS_DENIED, "this update could not be checked; the administrator's log says why.")
end

slurm.log_info("synergy: gate of %d s in partition %s", settings.lease_seconds,
    table.concat(settings.managed_partitions, ","))
return slurm.SUCCESS
