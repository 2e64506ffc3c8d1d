-- As much of slurmctld as the gate asks for: the gate in the folder GATE is read, and submit submits a job with what
-- differs from an ordinary one. It prints what the user is told, then the verdict and the annotation.
slurm = {
    NO_VAL = 0xfffffffe, NO_VAL16 = 0xfffe, INFINITE = 0xffffffff,
    SUCCESS = 0, ESLURM_NOT_SUPPORTED = 2036, ESLURM_ACCESS_DENIED = 2002,
    JOB_SHARED_NONE = 0, JOB_SHARED_USER = 2, JOB_SHARED_MCS = 3,
    log_info = function() end,
    log_error = function(...) print("error: " .. string.format(...)) end,
    log_user = function(...) print(string.format(...)) end,
}

dofile(GATE .. "/job_submit.lua")

function submit(differs)
    local job = {
        partition = "synergy", comment = "synergy-profile=a.json synergy-checkpoint", script = "#!/bin/sh\n",
        tres_per_node = "gres/gpu:1", environment = {}, shared = slurm.NO_VAL16, contiguous = 0,
    }
    for key, value in pairs(differs) do job[key] = value or nil end
    print(slurm_job_submit(job, {}, 1000) .. " " .. tostring(job.extra))
end
