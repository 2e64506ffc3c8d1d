//go:build live

package live

import (
	"fmt"
	"strings"
	"testing"
)

// stubSlurmctld is as much of it as the gate asks for: the gate is read, and job submits one with what differs from an
// ordinary job.
const stubSlurmctld = `
slurm = { NO_VAL = 0xfffffffe, NO_VAL16 = 0xfffe, INFINITE = 0xffffffff, SUCCESS = 0, ESLURM_NOT_SUPPORTED = 2036, ESLURM_ACCESS_DENIED = 2002,
	JOB_SHARED_NONE = 0, JOB_SHARED_USER = 2, JOB_SHARED_MCS = 3, log_info = function() end,
	log_error = function(...) print("error: " .. string.format(...)) end, log_user = function(...) print(string.format(...)) end }
dofile(GATE .. "/job_submit.lua")
function submit(differs)
	local job = { partition = "synergy", comment = "synergy-profile=a.json synergy-checkpoint", script = "#!/bin/sh\n", tres_per_node = "gres/gpu:1",
		environment = {}, shared = slurm.NO_VAL16, contiguous = 0 }
	for key, value in pairs(differs) do job[key] = value end
	print(slurm_job_submit(job, {}, 1000) .. " " .. tostring(job.extra))
end
`

// gate runs a program behind that, in the Lua of the image, with a list of these profiles.
func (c *Cluster) gate(program string, profiles ...string) string {
	c.t.Helper()
	const run = `set -e; dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cp /opt/synergy/etc/job_submit.lua "$dir"
		echo "return { profiles_file = '$dir/profiles' }" > "$dir/synergy_settings.lua"
		{ date +%s; printf '%s\n' "$@"; } > "$dir/profiles"
		{ echo "GATE = '$dir'"; cat; } > "$dir/main.lua"
		lua5.4 "$dir/main.lua" 2>&1`
	said, err := c.ExecInput("slurmctld", "slurm", stubSlurmctld+program,
		append([]string{"bash", "-c", run, "bash"}, profiles...)...)
	if err != nil {
		c.t.Fatalf("%v: %s", err, said)
	}
	return said
}

func TestTheGateLooksForTheProfileThatTheJobNamesAndForNoOther(t *testing.T) {
	c := OpenCluster(t)
	for comment, want := range map[string]string{
		"note=synergy-profile=zzz.json synergy-profile=a.json,synergy-checkpoint": `0 {"v":1`,
		"note=synergy-profile=a.json synergy-profile=zzz.json":                    "there is no profile zzz.json",
	} {
		if said := c.gate(fmt.Sprintf("submit { comment = %q }", comment), "a.json", "b.json"); !strings.Contains(said,
			want) {
			t.Errorf("%s: %q, want %q", comment, said, want)
		}
	}
}

func TestTheGateSeesASizedStepInAVariableAndBehindOne(t *testing.T) {
	c := OpenCluster(t)
	for script, sized := range map[string]bool{
		`RUN="srun -n 4"; $RUN ./a`: true, "LAUNCH=/usr/bin/srun -c 4": true, "srun $OPTIONS -n 4 ./a": true,
		"srun $(cat options) -c 4 ./a": true,
		"srun -lc 4 ./a":               true, "srun -luc4 ./a": true, "srun -c srun -c 4": true,
		"srun $PROGRAM data -n 4": false, "srun -l $OPTIONS ./a -n 4": false, "srun -K1 ./a": false,
		"srun -I60 ./a": false, "srun - ./a": false,
		"RUN=mysrun -c 4": false, "srun -c ./a -n1": false,
	} {
		if said := c.gate(fmt.Sprintf("submit { script = %q }", script), "a.json"); strings.Contains(said,
			`"steps":1`) != sized {
			t.Errorf("%s: %s", script, said)
		}
	}
}

// What a user may send, slurmctld stands still for. The counts are the gate's own steps, since a clock says as much of
// the machine.
func TestWhatAUserSendsCostsTheGateBoundedWork(t *testing.T) {
	c := OpenCluster(t)
	const count = `
local steps, words = 0, %s
debug.sethook(function() steps = steps + 1 end, "", 1000)
submit(words)
debug.sethook()
print(steps < 2000 and "bounded" or steps .. " thousand steps")`
	for name, job := range map[string]string{
		"many words and many options": `{ comment = ("synergy-x "):rep(100000) .. "synergy-profile=a.json",
			spank_job_env = (function() local all = {} for i = 1, 1000 do all[i] = "_SLURM_SPANK_OPTION_synergy_synergy_profile=a" end return all end)() }`,
		"a comment of others' words": `{ comment = ("a "):rep(1000000) }`,
		"options of sruns of sruns":  `{ script = (("srun -c "):rep(127) .. "\n"):rep(32) }`,
	} {
		if said := c.gate(fmt.Sprintf(count, job), "a.json"); !strings.Contains(said, "bounded") {
			t.Errorf("%s: %s", name, said)
		}
	}
}
