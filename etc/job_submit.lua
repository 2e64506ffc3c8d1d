--[==[
Slurm's job_submit plugin for synergy-slurmd: the gate and the veto.

At submit, a job that opts in by a word in its comment is checked, and its begin
time is moved into the future, so that the daemon can size and place it before
Slurm starts it. One of a shape that the daemon does not size is left to Slurm as
it is, with a sentence: what is no mistake in our words is never refused. The daemon keeps renewing that begin time; when it dies, the
time passes and Slurm starts the job as it was asked for. Afterwards, the owner
of such a job may not change what the daemon decides.

Everything else is left alone: a job without a `synergy-` word, or outside the
managed partitions, leaves this file exactly as it came in. Where the settings say
keep_shards, one without a word that asks for a part of a GPU in a managed
partition is refused.

    synergy-profile=NAME.json              opts in; the sensitivity profile
    synergy-profile=auto                   opts in; the job measures itself
    synergy-checkpoint[=SIGNAL[@GRACE][/steps]]
                                           saves on SIGNAL (USR1) in GRACE s (60);
                                           /steps: its tasks do, not its script
    synergy-length=NUMBERs|m|h|d           expected run at the proportional share
    synergy-progress[=ITERATIONS@EPOCH]    how far a running job has come; at
                                           submission the bare word: it will say
    synergy-curve=C:RATE[/C:RATE…]@EPOCH   what a running job has measured of
                                           itself; never at submission
    synergy-env=on|off                     its nodes tell its tasks what they were
                                           given, or do not measure them either
    synergy-cores=keep|give                whether what the user asked for in cores,
    synergy-memory=keep|give               or in memory, is the least that it runs with
    synergy-share=high|low[,mem=GIB][,slo=MS]
                                           may share a GPU with other jobs

Words are separated by spaces or commas; words without our prefix are the user's,
but mem= and slo= that follow synergy-share=… behind one comma. Such a word that
stands behind it otherwise, or is called memory= or the like, is refused.

What an owner may change on a managed job: name, comment (as long as our directives
stay), time limit, dependency, mail, account, QOS, WCKey, licences, nice, and
holding and releasing it; a hold gains nothing over other jobs, and whoever
submits with -H must be able to release. What decides who runs, where and with
how much (`vetoed` below) is the daemon's. scancel and scontrol requeue do not
pass through here.

Not seen by this file, because Slurm 24.11 does not show it to lua: --core-spec
(Slurm itself drops it unless AllowSpecResourcesUsage is set) and --deadline.

What the user asked for in so many words goes into the job's annotation, since nobody
can tell it later from Slurm's defaults: memory, cores, a time limit, and steps in
the script whose size is a number.

Where the settings name a heartbeat of the daemon, and it is stale, everything
passes as if there were no daemon: no check, no gate, no veto. Only keep_shards
holds all the same, since who shares a GPU runs on without the daemon.

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
    profiles_file = "",
    hints = true,
    keep_shards = false,
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

-- The beginning of the file, or nil. No more than that is read, whatever stands
-- under that name. (Opening a FIFO would wait for its writer, and nothing in Lua
-- can tell beforehand; so its folder must be in good hands.)
local function beginning(path, bytes)
    local file = path ~= "" and io.open(path)
    if not file then return nil end
    local text = file:read(bytes)
    file:close()
    return text
end

-- Whether a file of the daemon's, whose first line is the time at which it was
-- written, is of now. A time from the future is no sign of life either, beyond
-- what clocks differ by.
local function is_fresh(text)
    local beat = text and tonumber(text:match("^(%d+)\n") or "")
    return beat ~= nil and math.abs(os.time() - beat) <= settings.heartbeat_seconds
end

local function is_away()
    return settings.heartbeat_file ~= "" and not is_fresh(beginning(settings.heartbeat_file, 24))
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

-- Of a longer comment no word is looked at but our first: it is refused, if there
-- is one, and slurmctld stands still until it is.
local function looked_at(comment)
    comment = comment or ""
    if #comment <= MAX_COMMENT then return comment end
    return comment:find("synergy-", 1, true) and (" " .. comment):match("[%s,](synergy%-[^%s,]*)") or ""
end

-- All words in the order in which they stand. A comma ends a word, but not before
-- the mem= and slo= of synergy-share.
local function words_of(comment)
    local words, last_end = {}, nil
    for from, word, to in looked_at(comment):gmatch("()([^%s,]+)()") do
        local last, name = words[#words] or "", word:sub(1, 4)
        if last:sub(1, 14) == "synergy-share=" and (name == "mem=" or name == "slo=")
            and from == last_end + 1 and comment:sub(last_end, last_end) == "," then
            words[#words] = last .. "," .. word
        else
            words[#words + 1] = word
        end
        last_end = to
    end
    return words
end

-- Our directives.
local function our_words(comment)
    local words = {}
    for _, word in ipairs(words_of(comment)) do
        if word:sub(1, 8) == "synergy-" then words[#words + 1] = word end
    end
    return words
end

local OUR_NAMES = {
    "synergy-profile", "synergy-checkpoint", "synergy-length", "synergy-progress", "synergy-curve", "synergy-env", "synergy-cores", "synergy-memory",
    "synergy-share",
}

-- What is left of a name without case, dashes and the like: by that a word that
-- was meant for us is known.
local function bare(name)
    return (name:gsub("[^%w]", ""):lower())
end

local name_of_bare = {}
for _, name in ipairs(OUR_NAMES) do name_of_bare[bare(name)] = name end

-- The first word that is one of ours but for how it is written, and how it
-- should be: synergy_profile=…, Synergy-Profile=…, with a dash of a word processor.
local function misspelt(comment)
    for _, word in ipairs(words_of(comment)) do
        local name, rest = word:match("^([^=:]*)(.*)$")
        local right = #name <= 60 and name_of_bare[bare(name)]
        if right and right ~= name then return word, right .. rest:gsub("^:", "=") end
    end
end

-- The names of our directives, each with its first value; false where it has none.
local function our_values(comment)
    local values = {}
    for _, word in ipairs(our_words(comment)) do
        local name, value = word:match("^([^=]*)=?(.*)$")
        if values[name] == nil then values[name] = value ~= "" and value end
    end
    return values
end

local function is_report(word)
    return word == "synergy-progress" or word:sub(1, 17) == "synergy-progress=" or word:sub(1, 14) == "synergy-curve="
end

-- Our directives but for the reports, which a job may change while it runs.
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
    local right = "a profile's file name, for example synergy-profile=res18.json, "
        .. "of letters, digits, dots, dashes and underscores, without a path, "
        .. "and the whole word no longer than " .. MAX_WORD .. " characters; or synergy-profile=auto, for a job that measures itself"
    if value == "auto" then return nil end
    if #word > MAX_WORD then return right end
    if not value or not value:match("^%w[%w._-]*%.json$") or value:find("..", 1, true) then
        return right
    end
end

local function check_checkpoint(value)
    if not value then return nil end
    local timing = value:match("^(.*)/steps$") or value
    local signal, grace = timing:match("^(%u+%d?)@([1-9]%d*)$")
    signal = signal or timing
    if not SIGNALS[signal] or tonumber(grace or 1) > MAX_GRACE then
        return "synergy-checkpoint, or a signal of USR1, USR2, HUP, INT and TERM with a grace of 1 to "
            .. MAX_GRACE .. " whole seconds, and /steps where the tasks of srun are to have it and not the script, "
            .. "for example synergy-checkpoint=USR1@60 or synergy-checkpoint=USR1@60/steps"
    end
end

local MAX_LENGTH = 10 * 365 * 24 * 3600 -- seconds
local SECONDS_IN = { s = 1, m = 60, h = 3600, d = 24 * 3600 }

-- Nine digits at most, and nine behind the point.
local function is_length(value)
    local whole, part, unit = value:match("^(%d+)(.*)([smhd])$")
    if not whole or #whole > 9 or not (part == "" or part:match("^%.%d+$") and #part <= 10) then return false end
    local seconds = tonumber(whole .. part) * SECONDS_IN[unit]
    return seconds > 0 and seconds <= MAX_LENGTH
end

local function check_length(value)
    if not value or not is_length(value) then
        return "a positive number and its unit s, m, h or d, and at most ten years, for example synergy-length=2.5h"
    end
end

local function check_progress(value)
    if not value then return nil end
    local iterations, epoch = value:match("^(%d+)@([1-9]%d*)$")
    if not iterations or iterations:match("^0%d") or #iterations > 15 or #epoch > 11 or tonumber(epoch) > 2^33 then
        return "the iterations so far, @ and the seconds since the epoch, for example synergy-progress=1200@1767268800"
    end
end

-- The cores ascend, no rate is 0 or above a million, and there are sixteen at most.
local function is_curve(points)
    local last, count = 0, 0
    for point in (points .. "/"):gmatch("([^/]*)/") do
        local cores, whole, part = point:match("^([1-9]%d*):(%d+)(.*)$")
        if not cores or #cores > 4 or #whole > 7 or not (part == "" or part:match("^%.%d+$") and #part <= 7) then return false end
        local rate = tonumber(whole .. part)
        if tonumber(cores) <= last or rate <= 0 or rate > 1000000 then return false end
        last, count = tonumber(cores), count + 1
    end
    return count <= 16
end

local function check_curve(value, word)
    local points, epoch = (value or ""):match("^([^@]+)@([1-9]%d*)$")
    if not points or #word > MAX_WORD or #epoch > 11 or tonumber(epoch) > 2^33 or not is_curve(points) then
        return "CORES:ITERATIONS-A-SECOND with / between, ascending in cores, @ and the seconds since the epoch, and the whole word no longer than "
            .. MAX_WORD .. " characters, for example synergy-curve=1:0.58/2:1.13@1767268800"
    end
end

local function check_env(value)
    if value ~= "on" and value ~= "off" then return "synergy-env=on or synergy-env=off, or no such word" end
end

local function check_keeping(value, word)
    local name = word:match("^[^=]*")
    if value ~= "keep" and value ~= "give" then
        return name .. "=keep, not to run with less than you ask for, or " .. name .. "=give, to leave that to the profile"
    end
end

local MAX_MEMORY, MAX_SLO = 1024, 600000 -- GiB, milliseconds

local function is_memory(amount)
    local whole, part = amount:match("^(%d+)(.*)$")
    if not whole or #whole > 6 or not (part == "" or part:match("^%.%d%d?%d?$")) then return false end
    return tonumber(amount) > 0 and tonumber(amount) <= MAX_MEMORY
end

local function is_slo(amount)
    return #amount <= 9 and amount:match("^[1-9]%d*$") ~= nil and tonumber(amount) <= MAX_SLO
end

local function is_share(value)
    local class, amounts = value:match("^([^,]*)(.*)$")
    if class ~= "high" and class ~= "low" then return false end
    local seen = {}
    for name, amount in amounts:gmatch(",([^=,]*)=?([^,]*)") do
        local is_amount = name == "mem" and is_memory or name == "slo" and is_slo
        if not is_amount or seen[name] or not is_amount(amount) then return false end
        seen[name] = true
    end
    return true
end

local function check_share(value)
    if not value or not is_share(value) then
        return "high or low, and where it is known mem= with the GiB of the GPU's memory that the job needs at most, more than 0 and at most " .. MAX_MEMORY
            .. ", and slo= with whole milliseconds for a step, 1 to " .. MAX_SLO .. ", each once, for example synergy-share=high,mem=6,slo=50"
    end
end

local check_of_word = {
    ["synergy-share"] = check_share,
    ["synergy-env"] = check_env,
    ["synergy-cores"] = check_keeping,
    ["synergy-memory"] = check_keeping,
    ["synergy-progress"] = check_progress,
    ["synergy-curve"] = check_curve,
    ["synergy-profile"] = check_profile,
    ["synergy-checkpoint"] = check_checkpoint,
    ["synergy-length"] = check_length,
}

-- What is wrong with an amount behind synergy-share that is no part of it, and how
-- such a word begins, with dashes and small letters: the daemon knows the same.
local STRAY_AMOUNT = "reads like an amount of synergy-share; amounts stand directly behind the class, joined by commas: synergy-share=low,mem=6"
local AMOUNT_NAMES = set_of({ "mem", "memory", "gpu-mem", "gpu-memory", "gpumem", "gpumemory", "slo", "level" })

local function is_amount(word)
    local name = word:match("^([^=]*)=")
    return name ~= nil and AMOUNT_NAMES[name:lower():gsub("_", "-")] == true
end

local function shortened(word)
    if #word <= 60 then return word end
    return word:sub(1, 60) .. "…"
end

local function complaint_about_word(word, seen)
    local name, value = word:match("^([^=]+)=(.*)$")
    name = name or word
    local check = check_of_word[name]
    if not check then
        return "is not a word that I know; there are " .. table.concat(OUR_NAMES, ", ")
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
    if comment:find("%c") or comment:find("\194[\128-\159]") then -- of ASCII, or of Unicode
        return "the comment has a control character in it; separate words by spaces or commas"
    end
    local seen = {}
    for _, word in ipairs(words_of(comment)) do
        local complaint
        if word:sub(1, 8) == "synergy-" then
            complaint = complaint_about_word(word, seen)
        elseif seen["synergy-share"] and is_amount(word) then
            complaint = STRAY_AMOUNT
        end
        if complaint then return "the word " .. shortened(word) .. " " .. complaint end
    end
    if not seen["synergy-profile"] then
        return "the comment has a synergy word but no synergy-profile=NAME.json; add it, or drop the others"
    end
end

--------------------------------------------------------------------- profiles

-- Bounds of the list, and of the search for what may have been meant: so many
-- pairs of letters are compared, which takes 20 ms. slurmctld stands still meanwhile.
local MAX_LIST, MAX_PAIRS, MAX_MEANT = 256 * 1024, 30000, 3

-- The names of the profiles that there are, as the daemon wrote them after its
-- last round, or nil where there is no list of now: then any name passes.
local function profile_names()
    local text = beginning(settings.profiles_file, MAX_LIST + 1)
    if not is_fresh(text) or #text > MAX_LIST then return nil end
    local names = {}
    for name in text:sub(text:find("\n") + 1):gmatch("[^\n]+") do names[#names + 1] = name end
    return names
end

-- How many letters have to be changed, added, left out or exchanged with their
-- neighbour to make one name the other.
local function distance(a, b)
    local before, row = {}, {}
    for j = 0, #b do row[j] = j end
    for i = 1, #a do
        local older = before
        before, row = row, { [0] = i }
        for j = 1, #b do
            local changed = a:byte(i) == b:byte(j) and 0 or 1
            row[j] = math.min(before[j] + 1, row[j - 1] + 1, before[j - 1] + changed)
            if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
                row[j] = math.min(row[j], older[j - 2] + 1)
            end
        end
    end
    return row[#b]
end

-- Those of the names that may be worth comparing, with the same first letter first:
-- most slips come later.
local function candidates(wanted, names, far)
    local first, others = {}, {}
    for _, name in ipairs(names) do
        if math.abs(#name - #wanted) <= far then
            local list = name:sub(1, 1):lower() == wanted:sub(1, 1):lower() and first or others
            list[#list + 1] = name
        end
    end
    for _, name in ipairs(others) do first[#first + 1] = name end
    return first
end

-- The names that are nearest to one that there is not, the nearest first.
local function nearest(wanted, names)
    local far, near, left = math.max(2, math.floor(#wanted / 3)), {}, MAX_PAIRS
    for _, name in ipairs(candidates(wanted, names, far)) do
        left = left - #wanted * #name
        if left < 0 then break end
        local d = distance(wanted:lower(), name:lower())
        if d <= far then near[#near + 1] = { d, name } end
    end
    table.sort(near, function(x, y) return x[1] < y[1] or (x[1] == y[1] and x[2] < y[2]) end)
    local found = {}
    for k = 1, math.min(#near, MAX_MEANT) do found[k] = near[k][2] end
    return found
end

local function complaint_about_profile(comment)
    local wanted, names = our_values(comment)["synergy-profile"], profile_names()
    if not wanted or wanted == "auto" or not names or set_of(names)[wanted] then return nil end
    local meant = nearest(wanted, names)
    if #meant > 0 then return "there is no profile " .. shortened(wanted) .. "; did you mean " .. table.concat(meant, ", ") .. "?" end
    if #names == 0 then return "there is no profile " .. shortened(wanted) .. ", nor any other; ask your administrator." end
    return "there is no profile " .. shortened(wanted) .. "; there are " .. #names .. ", such as " .. names[1] .. "."
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

-- srun and salloc: somebody waits for it at a terminal, and Slurm cannot requeue it.
local function is_interactive(job)
    return job.script == nil
end

local function is_range_of_nodes(job)
    return given(job.min_nodes) and given(job.max_nodes) and job.min_nodes ~= job.max_nodes
end

local function one_of_the_range(job)
    return string.format("cannot choose among %d to %d nodes; say -N %d for the most of them, or -N %d to start the soonest",
        job.min_nodes, job.max_nodes, job.max_nodes, job.min_nodes)
end

-- Whole nodes (--exclusive) are a size like any other.
local function is_exclusive(job)
    return job.shared == slurm.JOB_SHARED_USER or job.shared == slurm.JOB_SHARED_MCS
end

-- Features that are counted (a*2), or joined in a way other than a&b, a|b, [a|b] and (a|b)&c.
local function is_difficult_constraint(job)
    local plain = (job.features or ""):gsub("%b()", function(inner) return not inner:find("&", 1, true) and "x" or nil end)
    plain = plain:match("^%[(.*)%]$") or plain
    return plain:find("[%[%]()*!]") ~= nil or plain:find("&", 1, true) ~= nil and plain:find("|", 1, true) ~= nil
end

-- How many nodes a list as n[1-3,7],m2 names, or nil where it is not that simple.
-- A range of more than that is no list that somebody means.
local MOST_NODES = 100000

local function count_range(inside)
    local count = 0
    for entry in inside:gmatch("[^,]+") do
        local from, to = entry:match("^(%d+)%-(%d+)$")
        local more = from and tonumber(to) - tonumber(from) + 1 or entry:match("^%d+$") and 1
        if not more or more < 1 or more > MOST_NODES then return nil end
        count = count + more
    end
    return count
end

-- One name, or the names that one pair of brackets makes.
local function count_names(entry)
    local before, inside, behind = entry:match("^([^%[%]]*)%[([^%[%]]*)%]([^%[%]]*)$")
    if inside then return (before .. behind):match("^[%w._-]*$") and count_range(inside) end
    return entry:match("^[%w._-]+$") and 1
end

local function count_nodes(list)
    local count, at = 0, 1
    while at <= #list do
        local stop = list:find("[,%[]", at)
        if stop and list:sub(stop, stop) == "[" then stop = list:find(",", list:find("]", stop, true) or stop, true) end
        local more = count_names(list:sub(at, (stop or #list + 1) - 1))
        if not more then return nil end
        count, at = count + more, (stop or #list) + 1
    end
    return count
end

-- The daemon pins a job to all the nodes that its user named, or to some of its own.
local function names_another_number_of_nodes(job)
    local named = job.req_nodes and job.req_nodes ~= "" and count_nodes(job.req_nodes)
    return named and given(job.min_nodes) and named ~= job.min_nodes
end

local function is_in_others_partitions(job)
    local managed, all = count_partitions(job.partition)
    return managed < all
end

local function only_in_managed_ones(job)
    local managed = {}
    for name in job.partition:gmatch("[^,%s]+") do
        if managed_partition[name] then managed[#managed + 1] = name end
    end
    return "takes jobs of managed partitions only, and of yours these are " .. shortened(table.concat(managed, ","))
        .. "; name no others"
end

-- What the daemon cannot size or restart, and Slurm runs all the same. Each line: when, and what would be sized.
local left_shapes = {
    { is_in_others_partitions, only_in_managed_ones },
    { function(job) return is_interactive(job) and our_values(job.comment)["synergy-checkpoint"] ~= nil end,
        "never asks an interactive job to give way, since Slurm cannot requeue it; leave synergy-checkpoint out, or use sbatch" },
    { function(job) return given(job.het_job_offset) end,
        "takes no heterogeneous jobs; submit without ':' parts" },
    { function(job) return job.cron_job == true end,
        "takes no scrontab jobs; let the cron job call sbatch" },
    { is_exclusive, "cannot size a job that keeps other users off its nodes; leave --exclusive=user and =mcs out" },
    { function(job) return given(job.core_spec) or given(job.thread_spec) end,
        "cannot keep --core-spec and --thread-spec; leave them out" },
    { function(job) return job.contiguous == 1 end,
        "chooses the nodes, so --contiguous cannot be kept; leave it out" },
    { is_range_of_nodes, one_of_the_range },
    { names_another_number_of_nodes,
        "needs as many nodes named by -w as asked for by -N; name as many, or keep it off the others by -x" },
    { is_difficult_constraint,
        "understands a --constraint such as a&b, a|b and (a|b)&c; write it so" },
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

-- The first thing of a TRES text that is neither a GPU nor counted in another way.
local function other_gres(tres)
    for entry in (tres or ""):gmatch("[^,]+") do
        local name, amount = entry:match("^gres[/:]([%w_.-]+)(.*)$")
        if name and name ~= "gpu" and not amount:match("[:=]0+$") then return name end
    end
end

local function on_one_node(job)
    return not given(job.min_nodes) or job.min_nodes <= 1
end

-- The daemon has to know the GPUs of each node. --gres and --gpus-per-node say
-- it; --gpus and --gpus-per-task say it on one node, and the latter also where
-- each node has one task, or the tasks of a node are counted.
local function complaint_about_gpus(job)
    local node, whole = gpu_entries(job.tres_per_node), gpu_entries(job.tres_per_job)
    local task, socket = gpu_entries(job.tres_per_task), gpu_entries(job.tres_per_socket)
    local all = node + whole + task + socket
    if all == 0 then return "sizes jobs with GPUs only; ask for some, for example --gres=gpu:1" end
    if socket > 0 then return "does not know --gpus-per-socket; say --gpus-per-node" end
    if math.max(node, whole, task) > 1 then return "needs GPUs of one kind; name one type" end
    local other = other_gres(job.tres_per_node) or other_gres(job.tres_per_job) or other_gres(job.tres_per_task)
    if other then return "counts cores, memory and GPUs, and not " .. shortened(other) .. "; leave it out" end
    if on_one_node(job) or node > 0 then return nil end
    if whole > 0 then return "cannot tell how --gpus is split over several nodes; say --gpus-per-node" end
    if given(job.num_tasks) and job.num_tasks == job.min_nodes then return nil end
    if not given(job.ntasks_per_node) then
        return "cannot tell how many tasks, and so GPUs, go to each node; add --ntasks-per-node, or say --gpus-per-node"
    end
    if given(job.num_tasks) and job.num_tasks ~= job.min_nodes * job.ntasks_per_node then
        return "gives each node as many GPUs, and so tasks; ask for " .. job.min_nodes .. " times --ntasks-per-node tasks, or leave -n out"
    end
end

-- What of a GPU a TRES text asks for: "" where it is one of any type, or nil where
-- it asks for none.
local function one_gpu(tres)
    for entry in (tres or ""):gmatch("[^,]+") do
        local amount = entry:match("^gres[/:]gpu(.*)$")
        if amount then return (amount:gsub("^[:=]1$", "")) end
    end
end

-- Why the daemon does not size the job; nil where it does.
local function left_for(job)
    for _, shape in ipairs(left_shapes) do
        local sentence = shape[2]
        if shape[1](job) then return type(sentence) == "function" and sentence(job) or sentence end
    end
    return complaint_about_gpus(job)
end

------------------------------------------------------------------ what is asked

-- What of a script is looked at, so that a hostile one costs no more time than
-- another: its beginning, of the lines with srun so many bytes in all, and so many
-- of each.
local MAX_SCRIPT, MAX_LINES, MAX_LINE = 256 * 1024, 32 * 1024, 1024

-- The short options of srun that have a value, and the long ones that have none:
-- where its options end and the program begins, and with it options of others.
local VALUED = "ABbCcDdeFGiJLMmNnopqrStTWwx"
local BARE = {}
for name in ("allow-run-on-jobs contiguous disable-status exact exclusive external help hold immediate interactive kill-on-bad-exit label "
    .. "multi-prog no-kill no-allocate no-requeue nonblock oom-kill-step overcommit overlap oversubscribe parsable preserve-env pty quiet "
    .. "quit-on-interrupt reboot send-libs sockets-per-node-any spread-job unbuffered usage use-min-nodes verbose version whole"):gmatch("[^%s]+") do
    BARE[name] = true
end

-- Sizes of a step, each with the most that fits in any job: a task has one core,
-- and --mem=0 is what the job has.
local STEP_SIZES = {
    c = 1, ["cpus-per-task"] = 1, ["cpus-per-gpu"] = 1, mincpus = 1, ["ntasks-per-gpu"] = 1,
    n = "tasks", ntasks = "tasks", ["ntasks-per-node"] = "tasks",
    mem = 0, ["mem-per-cpu"] = 0, ["mem-per-gpu"] = 0,
}

-- Whether the option asks for more than any job has, in a number that stands there.
-- What a variable says follows the job, or cannot be known.
local function is_literal_size(name, value, tasks)
    local most = STEP_SIZES[name]
    local number = most and tonumber((value or ""):match("^(%d+)[KMGTkmgt]?[Bb]?$"))
    if most == "tasks" then most = tasks end
    return number ~= nil and number > most
end

-- The option of a word as -c4, -c or -lc4: the first letters of it may be options
-- without a value.
local function short_option(word)
    local name, value = word:sub(2, 2), word:sub(3)
    while value ~= "" and not VALUED:find(name, 1, true) do
        name, value = value:sub(1, 1), value:sub(2)
    end
    return name, value, value ~= "" or name == "" or not VALUED:find(name, 1, true)
end

-- Whether one of the words behind an srun, up to the end of its options, is what asks
-- takes. A variable among them may be options, too.
-- What was read from a word on once, for another srun in the same line, is not read again.
local function says_of_a_step(words, at, asks, read)
    while words[at] and words[at]:find("^[-$]") and not read[at] do
        local word = words[at]
        read[at] = true
        local name, value = word:match("^%-%-([^=]+)=?(.*)$")
        local attached = name and word:find("=", 1, true)
        if word:sub(1, 1) == "$" then
            attached = true
        elseif not name then
            name, value, attached = short_option(word)
        elseif BARE[name] then
            attached = true
        end
        if not attached then
            at = at + 1
            value = words[at]
        end
        if asks(name, value or "") then return true end
        at = at + 1
    end
    return false
end

-- The line up to a comment. A quote that is not closed goes on in the next line:
-- then all of this one counts.
local function without_comment(line)
    local at, quote = 1, nil
    while true do
        local i = quote == "'" and line:find("'", at, true) or quote == '"' and line:find('[\\"]', at) or not quote and line:find("[\"'#\\]", at)
        if not i then return line end
        local c = line:sub(i, i)
        if c == "\\" then
            i = i + 1
        elseif quote then
            quote = nil
        elseif c ~= "#" then
            quote = c
        elseif i == 1 or line:sub(i - 1, i - 1):find("[%s;&|()]") then
            return line:sub(1, i - 1)
        end
        at = i + 1
    end
end

local function has_step(line, asks)
    local words, read = {}, {}
    for word in line:gsub("[\"']", ""):gsub("[;&|()`]", " ; "):gmatch("[^%s]+") do words[#words + 1] = word end
    for at, word in ipairs(words) do
        if (word == "srun" or word:find("[/=]srun$")) and says_of_a_step(words, at + 1, asks, read) then return true end
    end
    return false
end

-- Whether the script runs a step with an option that asks takes. A text that is handed
-- to another program, between quotes or behind <<, counts as if it were run. First the
-- line as if what it puts in by $(…) were a variable, so that no option behind it is
-- lost, then all of it.
local function runs_a_step(job, asks)
    local script, left = job.script:sub(1, MAX_SCRIPT):gsub("\\\r?\n", " "), MAX_LINES
    for line in script:gmatch("[^\r\n]+") do
        if left > 0 and line:find("srun", 1, true) then
            line = without_comment(line:sub(1, math.min(MAX_LINE, left)))
            left = left - #line - 1
            if has_step(line:gsub("%$%b()", "$"):gsub("`[^`]*`", "$"), asks) or has_step(line, asks) then return true end
        end
    end
    return false
end

-- A step whose size is a number fails, or waits for ever, in a job that was given
-- less: to be wrong costs cores where it counts as such, and else the run.
local function sizes_its_steps(job)
    if is_interactive(job) then return false end -- the daemon knows that they are sized by what the user types
    local tasks = given(job.num_tasks) and job.num_tasks or 1
    return runs_a_step(job, function(name, value) return is_literal_size(name, value, tasks) end)
end

local function names_its_cpus(job)
    return given(job.cpus_per_task) or given(job.pn_min_cpus) or job.cpus_per_tres ~= nil
end

local STEP_GPUS = { gres = true, G = true, gpus = true, ["gpus-per-node"] = true, ["gpus-per-task"] = true, ["gpus-per-socket"] = true }

-- A part of a GPU is no GPU to Slurm: a step that names one does not start in a job
-- that shares it.
local function names_gpus_of_steps(job)
    return runs_a_step(job, function(name, value) return STEP_GPUS[name] and value ~= "none" end)
end

-- What keeps a job from sharing a GPU, or nil.
local function complaint_about_sharing(job)
    if our_values(job.comment)["synergy-share"] == nil then return nil end
    if is_interactive(job) then return "is for batch jobs, which can be moved to another GPU; use sbatch, or leave it out" end
    local gpu = one_gpu(job.tres_per_node) or one_gpu(job.tres_per_job)
    if not gpu or gpu:match("^[:=]%d") or not on_one_node(job) then
        return "is for a job with one GPU on one node; say --gres=gpu:1, or leave it out"
    end
    if gpu ~= "" then return "leaves it to the daemon which GPU is shared; say --gres=gpu:1 without a type, or leave it out" end
    if job.cpus_per_tres ~= nil or job.mem_per_tres ~= nil or given(job.ntasks_per_tres) then
        return "gives a part of a GPU, by which nothing can be counted; say -c for --cpus-per-gpu, --mem for --mem-per-gpu and -n for --ntasks-per-gpu, "
            .. "or leave the word out"
    end
    if names_gpus_of_steps(job) then
        return "gives a part of a GPU, of which a step cannot ask for a whole one; leave --gres and --gpus out behind srun, since a step has what its job "
            .. "has, or leave the word out"
    end
end

local function names_its_memory(job)
    return given(job.min_mem_per_node) or given(job.min_mem_per_cpu) or job.mem_per_tres ~= nil
end

-- Each with its key in the annotation, in the order in which they stand there.
local asked_for = {
    { "mem", names_its_memory },
    { "cpus", names_its_cpus },
    { "time", function(job) return given(job.time_limit) and job.time_limit ~= slurm.INFINITE end },
    { "steps", sizes_its_steps },
}

-- The annotation of a job as it came in. A script that cannot be read for an error of
-- ours costs what it would have said, and not the gate.
local function annotation_of(job)
    local annotation = string.format('{"v":1,"lua":1,"begin":%d', job.begin_time or 0)
    for _, row in ipairs(asked_for) do
        local ran, asked = pcall(row[2], job)
        if not ran then slurm.log_error("synergy: whether a job asks for its %s is not known: %s", row[1], tostring(asked)) end
        if ran and asked then annotation = annotation .. ',"' .. row[1] .. '":1' end
    end
    return annotation .. "}"
end

---------------------------------------------------------------------- shards

-- A longer text that names shards is refused as it is, so that none costs much.
local MAX_TRES = 4096
local TRES_FIELDS = { "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }

-- Whether a TRES text asks for a part of a GPU, however it is written: gres/shard,
-- gres:shard:1, gres/shard:g1:1, gres/shard=1, among others or alone.
local function asks_for_shards(tres)
    if type(tres) ~= "string" or #tres < 5 then return false end
    local text = tres:lower()
    if not text:find("shard", 1, true) then return false end
    if #text > MAX_TRES then return true end
    for entry in text:gsub("%s", ""):gmatch("[^,]+") do
        local name, amount = entry:gsub("^gres[/:]", ""):match("^([^:=]+)(.*)$")
        if name == "shard" and not amount:match("^[:=]0+$") then return true end
    end
    return false
end

-- Whether a job would ask for some once it is changed so.
local function would_ask_for_shards(change, job)
    for _, field in ipairs(TRES_FIELDS) do
        local tres = change[field]
        if tres == nil then tres = job[field] end
        if asks_for_shards(tres) then return true end
    end
    return false
end

local function touches_shards(change)
    if change.partition ~= nil then return true end
    for _, field in ipairs(TRES_FIELDS) do
        if change[field] ~= nil then return true end
    end
    return false
end

local SHARDS = "parts of a GPU are given by the daemon here, and a job that takes one by itself would slow down whoever shares that GPU; "
    .. "ask for --gres=gpu:1 without shard, and add --comment=\"synergy-profile=auto synergy-share=low\" to share one."

----------------------------------------------------------------------- submit

local function refuse(code, ...)
    slurm.log_user("%s", "synergy: " .. table.concat({ ... }))
    return code
end

-- Slurm keeps SLURM_TRES_PER_TASK in step with the cores of a task where it says
-- cpu=4, and not where it says cpu:4, which is the same; srun then ends at two
-- variables that differ.
local function name_cores_as_slurm_does(job)
    local said = job.tres_per_task
    if type(said) ~= "string" or #said > MAX_TRES then return end
    local named = ("," .. said):gsub(",cpu:", ",cpu="):sub(2)
    if named == said then return end
    job.tres_per_task = named
    job.environment["SLURM_TRES_PER_TASK"] = named
end

-- srun and salloc with -I: it starts in this very moment or not at all, so no
-- daemon can be waited for. (-I5 is seen by srun alone, which then gives up.)
local function is_immediate(job)
    return job.immediate == 1
end

-- The user's own begin time goes into the annotation, because the field itself is
-- ours from here on; whatever the user wrote into the annotation's place is dropped.
-- The environment of an interactive job is its terminal's.
local function gate(job)
    local own_begin = job.begin_time or 0
    local lease_end = os.time() + settings.lease_seconds
    job.extra = annotation_of(job)
    if not is_interactive(job) then name_cores_as_slurm_does(job) end
    if not is_immediate(job) then job.begin_time = math.max(own_begin, lease_end) end
end

-- An option of the SPANK plugin that nobody has put into the comment, or nil. Without cli_filter.lua a user would wait in vain for what it asks.
local function lost_option(job)
    local said = our_values(job.comment)
    for _, entry in pairs(job.spank_job_env or {}) do
        local name = entry:match("^_SLURM_SPANK_OPTION_synergy_(synergy_%w+)=")
        name = name and name:gsub("_", "-")
        if name and said[name] == nil then return name end
    end
end

-- One line about what leaving a word out costs; the job is taken all the same.
local function hint(job)
    if not settings.hints then return end
    local names = our_values(job.comment)["synergy-profile"] == "auto" and profile_names()
    if names and not set_of(names)["auto"] then
        slurm.log_user("%s", "synergy: this site does not learn profiles, so with synergy-profile=auto this job gets its proportional share of cores and "
            .. "memory; name a profile to be sized by it.")
    end
    if is_immediate(job) then
        slurm.log_user("%s", "synergy: with --immediate there is no time to size this job, so it gets what you ask for; "
            .. "leave the option out to have it sized.")
    elseif not is_interactive(job) and job.shared ~= slurm.JOB_SHARED_NONE and our_values(job.comment)["synergy-checkpoint"] == nil then
        slurm.log_user("%s", "synergy: without synergy-checkpoint this job cannot be asked to save and go on later, so cores and memory beyond its "
            .. "proportional share may go to jobs that can; add it if the job saves on a signal.")
    end
end

-- What a node believes of a job stands in its extra, and it knows the daemon's word by how that begins, in whichever
-- partition the job is: nobody else writes what begins so.
local ANNOTATION = '{"v":1,"lua":0,'
local FORGED = "an extra that begins with " .. ANNOTATION .. " is what the daemon behind synergy-profile writes; begin yours in another way."

local function is_forged(extra)
    return type(extra) == "string" and extra:sub(1, #ANNOTATION) == ANNOTATION
end

local function submit(job, partitions, uid)
    if not is_trusted[uid] and is_forged(job.extra) then return refuse(slurm.ESLURM_NOT_SUPPORTED, FORGED) end
    if settings.keep_shards and not is_trusted[uid] and would_ask_for_shards(job, {})
        and in_managed_partition(job.partition or default_partition(partitions)) then
        return refuse(slurm.ESLURM_NOT_SUPPORTED, SHARDS)
    end
    local lost = lost_option(job)
    local wrong, right = misspelt(job.comment)
    if #our_words(job.comment) == 0 and not lost and not wrong then return slurm.SUCCESS end
    if not in_managed_partition(job.partition or default_partition(partitions)) then return slurm.SUCCESS end
    if daemon_is_away() then return slurm.SUCCESS end
    if lost then
        return refuse(slurm.ESLURM_NOT_SUPPORTED, "--", lost, " did not reach the comment: there is no cli_filter.lua of ours where you submit; ",
            "say it as a word of --comment.")
    end
    if wrong then
        return refuse(slurm.ESLURM_NOT_SUPPORTED, "the word ", shortened(wrong), " is not written right; it should be ", shortened(right), ".")
    end

    local complaint = complaint_about_comment(job.comment)
    if complaint then return refuse(slurm.ESLURM_NOT_SUPPORTED, complaint, ".") end
    if job.comment:find("synergy-progress=", 1, true) then
        return refuse(slurm.ESLURM_NOT_SUPPORTED, "synergy-progress has a value only while the job runs; submit with the bare word, or without it.")
    end
    if our_values(job.comment)["synergy-curve"] ~= nil then
        return refuse(slurm.ESLURM_NOT_SUPPORTED, "synergy-curve is said by a job that runs; submit without it, it measures itself.")
    end
    complaint = complaint_about_profile(job.comment)
    if complaint then return refuse(slurm.ESLURM_NOT_SUPPORTED, complaint) end
    complaint = complaint_about_sharing(job)
    if complaint then return refuse(slurm.ESLURM_NOT_SUPPORTED, "synergy-share ", complaint, ".") end
    local why = left_for(job)
    if why then
        if settings.hints then slurm.log_user("%s", "synergy: the daemon behind synergy-profile " .. why .. ". Slurm runs this job as you ask for it.") end
        return slurm.SUCCESS
    end
    gate(job)
    hint(job)
    return slurm.SUCCESS
end

function slurm_job_submit(job, partitions, submit_uid)
    local ran, verdict = pcall(submit, job, partitions, submit_uid)
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
    if is_forged(change.extra) then return refuse(slurm.ESLURM_ACCESS_DENIED, FORGED) end
    local comment, partition = change.comment or job.comment, change.partition or job.partition
    if settings.keep_shards and touches_shards(change) and would_ask_for_shards(change, job) and in_managed_partition(partition) then
        return refuse(slurm.ESLURM_ACCESS_DENIED, SHARDS)
    end
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
    if #comment > MAX_COMMENT then return refuse(slurm.ESLURM_ACCESS_DENIED, complaint_about_comment(comment), ".") end
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
