//go:build live

package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// posting is a job submitted over REST, which is ten times as quick as sbatch in a container.
type posting struct {
	script  string
	comment string
	cpus    int
	gpus    int
	output  string // a path with %j; empty: nowhere
}

func (p posting) body() map[string]any {
	output := p.output
	if output == "" {
		output = "/dev/null"
	}
	return map[string]any{"job": map[string]any{
		"script": "#!/bin/sh\n" + p.script + "\n", "current_working_directory": "/tmp",
		"environment": []string{"PATH=/usr/local/bin:/usr/bin:/bin", "USER=alice"}, "partition": "synergy",
		"comment":       p.comment,
		"tres_per_node": fmt.Sprintf("gres/gpu:%d", p.gpus), "cpus_per_task": p.cpus, "standard_output": output,
		"open_mode": []string{"APPEND"}, "requeue": true,
	}}
}

// Crowd submits n jobs of alice, several at a time, and returns their IDs. They are cancelled by whoever clears the
// cluster.
func (c *Cluster) Crowd(n int, job func(k int) posting) []JobID {
	c.t.Helper()
	url, token := c.RestURL()+"/slurm/v0.0.42/job/submit", c.TokenOf("alice")
	ids, failures := make([]JobID, n), make([]error, n)
	next := make(chan int)
	var clerks sync.WaitGroup
	for range 6 {
		clerks.Go(func() {
			for k := range next {
				ids[k], failures[k] = submit(url, token, job(k))
			}
		})
	}
	for k := range n {
		next <- k
	}
	close(next)
	clerks.Wait()
	for k, err := range failures {
		if err != nil {
			c.t.Fatalf("submit job %d of %d: %v", k, n, err)
		}
	}
	return ids
}

var clerk = http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}

func submit(url, token string, job posting) (JobID, error) {
	body, err := json.Marshal(job.body())
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-SLURM-USER-TOKEN", token)
	response, err := clerk.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer Answer
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.JobID == 0 {
		return 0, fmt.Errorf("HTTP %d: %v %v", response.StatusCode, answer.Errors, err)
	}
	return answer.JobID, nil
}

// Count is how many jobs are in the state.
func (c *Cluster) Count(state string) int { return c.queued("--states=" + state) }

// Left is how many jobs are not over.
func (c *Cluster) Left() int { return c.queued() }

// queued counts the jobs that squeue tells of. The daemon's own, which never run, are none.
func (c *Cluster) queued(which ...string) int {
	c.t.Helper()
	names := strings.Fields(c.MustExec("login", "root", append([]string{"squeue", "--noheader", "--format=%j"},
		which...)...))
	return len(slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "synergy-slurmd-le") }))
}

// figures are samples of Prometheus' text format by their name and labels, or sums of what a Slurm daemon did.
type figures map[string]float64

// minus is what was added since.
func (f figures) minus(before figures) figures {
	since := figures{}
	for name, value := range f {
		since[name] = value - before[name]
	}
	return since
}

// sum adds up all samples of a metric.
func (f figures) sum(name string) float64 {
	total := 0.0
	for sample, value := range f {
		if sample == name || strings.HasPrefix(sample, name+"{") {
			total += value
		}
	}
	return total
}

// total adds up everything.
func (f figures) total() float64 {
	sum := 0.0
	for _, value := range f {
		sum += value
	}
	return sum
}

// Metrics are the daemon's own.
func (d *Daemon) Metrics() figures {
	d.c.t.Helper()
	f := figures{}
	for line := range strings.Lines(d.Get("/metrics")) {
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			d.c.t.Fatalf("metric %q: %v", line, err)
		}
		f[line[:at]] = value
	}
	return f
}

// Set gives a key of the configuration another value than is usual in the tests.
func (d *Daemon) Set(key string, value time.Duration) {
	d.c.t.Helper()
	line := regexp.MustCompile(`(?m)^` + key + `: .*$`)
	d.Put("config.yaml", line.ReplaceAllString(d.Read("config.yaml"), key+": "+value.String())+"\n")
}

// CPUTime is the seconds of CPU that a process of a role has used.
func (c *Cluster) CPUTime(role, process string) float64 {
	c.t.Helper()
	stat := c.MustExec(role, "root", "sh", "-c", `cat /proc/$(pgrep -xo "$1")/stat`, "sh", process)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	ticks := 0.0
	for _, field := range fields[11:13] { // utime and stime, by hundredths
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			c.t.Fatalf("CPU time of %s: %q", process, stat)
		}
		ticks += n
	}
	return ticks / 100
}

// Memory is the resident memory of a process of a role, in MB.
func (c *Cluster) Memory(role, process string) float64 {
	c.t.Helper()
	text := c.MustExec(role, "root", "sh", "-c", `awk '/^VmRSS/ {print $2}' /proc/$(pgrep -xo "$1")/status`, "sh",
		process)
	kib, err := strconv.ParseFloat(text, 64)
	if err != nil {
		c.t.Fatalf("memory of %s: %q", process, text)
	}
	return kib * 1024 / 1e6
}

// A line of sdiag: a message type or a user, how often, and the microseconds in all.
var rpcLine = regexp.MustCompile(`(?m)^\s+(\w+)\s+\(\s*\d+\)\s+count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)`)

// RPCs are the calls that slurmctld has served, by type and by user: "NAME count", and "NAME seconds".
func (c *Cluster) RPCs() figures {
	c.t.Helper()
	f := figures{}
	for _, match := range rpcLine.FindAllStringSubmatch(c.MustExec("login", "root", "sdiag"), -1) {
		count, _ := strconv.ParseFloat(match[2], 64)
		micros, _ := strconv.ParseFloat(match[3], 64)
		f[match[1]+" count"], f[match[1]+" seconds"] = count, micros/1e6
	}
	return f
}
