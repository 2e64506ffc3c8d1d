package slurmrest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// complained is the body with which slurmrestd tells of an error.
func complained(number int, text string) string {
	return fmt.Sprintf(
		`{"errors":[{"description":"Job update requested failed","error_number":%d,"error":%q,"source":"x"}],"warnings":[]}`, number, text)
}

func TestEachRefusalOfAnUpdateBecomesTheErrorThatARoundBranchesOn(t *testing.T) {
	for _, c := range []struct {
		name string
		with http.HandlerFunc
		want error
		text string
	}{
		{"the job is gone", text(404, complained(2017, "Invalid job id specified")), slurm.ErrGone,
			"404 error 2017 Invalid job id specified"},
		{"it started", always(500, "update-running.json"), slurm.ErrNotPending,
			"500 error 2073 Job is no longer pending execution"},
		{"it ended", text(500, complained(2084, "Job has already finished")), slurm.ErrNotPending,
			"500 error 2084 Job has already finished"},
		{"no such node", always(500, "update-bad-node.json"), slurm.ErrRefused,
			"500 error 2018 Invalid node name specified"},
		{"the partition cannot serve it",
			text(500, complained(2015, "Requested partition configuration not available now")), slurm.ErrRefused,
			"2015"},
		{"CPUs invalid", always(500, "update-bad-cpus.json"), slurm.ErrRefused,
			"500 error 2069 CPU count specification invalid"},
		{"GRES invalid", text(500, complained(2072, "Invalid generic resource (gres) specification")),
			slurm.ErrRefused, "2072"},
		{"not allowed", text(500, complained(2002, "Access/permission denied")), slurm.ErrDenied, "2002"},
		{"another's job", always(500, "update-denied.json"), slurm.ErrDenied, "500 error 2010 Invalid user id"},
		{"nothing submitted", text(500, complained(2019, "Job script not specified")), slurm.ErrRefused, "2019"},
		{"a veto", text(500, complained(-1, "Unspecified error")), slurm.ErrRefused, "500 error -1 Unspecified error"},
		{"controller lost", text(500, complained(1000, "Unexpected message received")), slurm.ErrUnreachable, "1000"},
		{"controller's socket", text(500, complained(5004, "Socket timed out")), slurm.ErrUnreachable, "5004"},
		{"malformed", always(422, "update-malformed.json"), slurm.ErrRefused, "422 error 9000"},
		{"token expired", always(511, "token-bad.json"), slurm.ErrDenied,
			"511 error 1007 Protocol authentication error"},
		{"no token", plainText(401, "Authentication failure"), slurm.ErrDenied, "401 Authentication failure"},
		{"field ignored", always(200, "update-unknown-field.json"), slurm.ErrRefused,
			`200 Ignoring unknown field "nonsense"`},
		{"errors in a success", text(200, complained(2015, "x")), slurm.ErrRefused, "200 error 2015"},
		{"an error of next year", text(500, complained(2999, "News")), slurm.ErrRefused, "500 error 2999 News"},
		{"error without a reason", text(500, `{"errors":[],"warnings":[]}`), slurm.ErrUnreachable,
			"500 without a reason"},
		{"unknown API version", plainText(404, "Unable find requested URL."), slurm.ErrRefused,
			"404 Unable find requested URL."},
		{"a proxy's page", plainText(502, "<html>Bad gateway</html>"), slurm.ErrUnreachable, "502"},
		{"too many requests", plainText(429, "slow down"), slurm.ErrUnreachable, "429"},
		{"redirected", plainText(307, "elsewhere"), slurm.ErrUnreachable, "307"},
		{"garbage in a failure", text(500, "{"), slurm.ErrUnreachable, "500 with a body that is not JSON"},
		{"garbage in a success", text(200, "{"), slurm.ErrUnreachable, "read answer"},
		{"success in plain text", plainText(200, "OK"), slurm.ErrUnreachable,
			`answer of type "text/plain": want application/json`},
		{"connection cut", cut, slurm.ErrUnreachable, "slurmrestd: "},
		{"half a body", half, slurm.ErrUnreachable, "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := startFake(t)
			client := fake.open(t, Options{})
			id := fake.jobNamed(t, "gated")
			fake.answers("POST", fmt.Sprintf("/job/%d", id), c.with)
			err := client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Now(),
				Request: slurm.Request{CPUs: 1}})
			if !errors.Is(err, c.want) || others(err, c.want) {
				t.Fatalf("%v is %s: want %v and nothing else", err, kindWord(err), c.want)
			}
			if !strings.HasPrefix(err.Error(), fmt.Sprintf("update job %d: slurmrestd: ", id)) ||
				!strings.Contains(err.Error(), c.text) {
				t.Errorf("reads %q: want %q in it", err, c.text)
			}
		})
	}
}

// others says that an error is of more kinds than one.
func others(err, kind error) bool {
	for _, other := range []error{slurm.ErrGone, slurm.ErrNotPending, slurm.ErrNotRunning, slurm.ErrDenied,
		slurm.ErrRefused, slurm.ErrUnreachable} {
		if other != kind && errors.Is(err, other) {
			return true
		}
	}
	return false
}

func plainText(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func half(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"errors":[`))
}

func TestAStringForAListIsHarmless(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	id := fake.jobNamed(t, "gated")
	job, err := client.job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	fake.answers("POST", fmt.Sprintf("/job/%d", id), always(200, "update-string-for-list.json"))
	if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Now(), Request: job.Request}); err != nil {
		t.Error(err)
	}
}

func TestAnUnspecifiedErrorIsAVetoOnlyWhileAControllerAnswers(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	id := fake.jobNamed(t, "gated")
	fake.answers("POST", fmt.Sprintf("/job/%d", id), text(500, complained(-1, "Unspecified error")))
	fake.answers("GET", "/ping/", text(200, `{"pings":[{"hostname":"ctl","pinged":"DOWN","responding":false}]}`))
	err := client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Now(), Request: slurm.Request{CPUs: 1}})
	if !errors.Is(err, slurm.ErrUnreachable) || errors.Is(err, slurm.ErrRefused) {
		t.Errorf("%v: want unreachable, not refused", err)
	}
}

func TestAQuestionThatFailsForNoReasonHasFoundNoController(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	fake.answers("GET", "/jobs/", text(500, complained(-1, "Unspecified error")))
	if _, err := client.Observe(t.Context()); !errors.Is(err, slurm.ErrUnreachable) ||
		errors.Is(err, slurm.ErrRefused) {
		t.Errorf("%v: want unreachable, not refused", err)
	}
}

func TestAPinThatReachesARunningJobIsNotAPlannersMistake(t *testing.T) {
	fake := startFake(t)
	client := fake.open(t, Options{})
	id := fake.jobNamed(t, "gated")
	if _, err := client.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake.set(id, "job_state", []string{"RUNNING"}) // after we looked
	fake.answers("POST", fmt.Sprintf("/job/%d", id), always(500, "update-bad-node.json"))
	err := client.Update(t.Context(), slurm.Update{Job: id, Begin: time.Now(),
		Request: slurm.Request{CPUs: 1, Pin: []string{"n1"}}})
	if !errors.Is(err, slurm.ErrNotPending) {
		t.Errorf("%v: want not pending", err)
	}
}

func TestSlurmsTextIsBoundedAndOnOneLine(t *testing.T) {
	got := inLine(strings.Repeat("long\nand é ", 100), "")
	if strings.Contains(got, "\n") || len(got) > 210 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := inLine("a\x1b[31mred\u009b0m\u202eturned\x00 \xff end", ""); got != "a [31mred 0m turned ? end" {
		t.Errorf("%q", got)
	}
}
