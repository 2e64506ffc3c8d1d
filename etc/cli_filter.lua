--[==[
Slurm's cli_filter plugin for synergy-slurmd: puts the options of the SPANK plugin into the job's comment.

    sbatch --synergy-profile=res18.json --synergy-checkpoint=USR1@60 train.sh
    sbatch --comment="synergy-profile=res18.json synergy-checkpoint=USR1@60" train.sh

are the same job: gate, daemon and users look at the comment only. What the user has written there stays as it is, and stays in front. An option that
says otherwise than the same word of the comment is refused: which of the two was meant, nobody can know.

A command without such an option leaves this file exactly as it came in. A mistake in here must not stop a site: an option that cannot be put into the
comment is refused with a sentence, everything else passes.
]==]

local names = { "synergy-profile", "synergy-checkpoint", "synergy-length", "synergy-progress", "synergy-env", "synergy-cores", "synergy-memory",
    "synergy-share" }

-- Slurm says "set" and "unset" of an option that has no value; neither is a value that the plugin would have let pass.
local function word_of(name, value)
    if value == nil or value == "unset" then return nil end
    if value == "set" then return name end
    return name .. "=" .. value
end

-- Where a word ends. A comma ends it, but not before the mem= and slo= of synergy-share.
local function end_of_word(comment, from, to)
    if comment:sub(from, from + 13) ~= "synergy-share=" then return to end
    while comment:find("^,mem=", to + 1) or comment:find("^,slo=", to + 1) do
        local _, last = comment:find("^[^%s,]+", to + 2)
        to = last
    end
    return to
end

-- The word of the comment with this name, or nil.
local function word_in(comment, name)
    local at = 1
    while true do
        local from, to = comment:find("[^%s,]+", at)
        if not from then return nil end
        to = end_of_word(comment, from, to)
        local word = comment:sub(from, to)
        if word == name or word:sub(1, #name + 1) == name .. "=" then return word end
        at = to + 1
    end
end

-- The comment with the options in it, or nil and what is wrong.
local function with_options(comment, given)
    for _, name in ipairs(names) do
        local word = word_of(name, given[name])
        local there = word and word_in(comment, name)
        if there and there ~= word then
            return nil, "--" .. word .. " says otherwise than " .. there .. " in the comment; keep one of them"
        end
        if word and not there then
            comment = comment == "" and word or comment .. " " .. word
        end
    end
    return comment
end

local function put_into_comment(options, given)
    local before = options.comment or ""
    local comment, wrong = with_options(before, given)
    if not comment then
        slurm.log_error("synergy: %s.", wrong)
        return slurm.ERROR
    end
    if comment ~= before then options.comment = comment end
    return slurm.SUCCESS
end

-- The options of our plugin; a host may be without the plugin.
local function our_options(options)
    return options.spank and options.spank.synergy
end

function slurm_cli_setup_defaults()
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options)
    local asked, given = pcall(our_options, options)
    if not asked or not given then return slurm.SUCCESS end
    local ran, verdict = pcall(put_into_comment, options, given)
    if ran then return verdict end
    slurm.log_error("synergy: the options could not be put into the comment (%s); say --comment=synergy-profile=… instead.", tostring(verdict))
    return slurm.ERROR
end

function slurm_cli_post_submit()
    return slurm.SUCCESS
end

return slurm.SUCCESS
