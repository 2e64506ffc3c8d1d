package slurmrest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// scripted is a slurmrestd that says what it is told to, and notes what it is asked.
type scripted struct {
	mu    sync.Mutex
	asked []string
	says  map[string]string // by method and path
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	question := r.Method + " " + r.URL.Path
	s.asked = append(s.asked, strings.TrimSpace(question+" "+r.URL.RawQuery))
	w.Header().Set("Content-Type", "application/json")
	answer, known := s.says[question]
	if !known {
		answer = `{}`
	}
	if strings.Contains(answer, `"error_number"`) {
		w.WriteHeader(http.StatusInternalServerError)
	}
	fmt.Fprint(w, answer)
}

func openScripted(t *testing.T, says map[string]string) (*scripted, *Client) {
	t.Helper()
	s := &scripted{says: says}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := Open(t.Context(), Options{URL: server.URL, TokenFile: token, APIVersion: "v0.0.42"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return s, client
}

const (
	prefix       = "/slurm/v0.0.42"
	annotatedJob = `{"jobs":[{"job_id":7,"job_state":["PENDING"],"extra":"{\"v\":1,\"lua\":1,\"begin\":0}","comment":"synergy-profile=a.json"}]}`
	plainJob     = `{"jobs":[{"job_id":7,"job_state":["PENDING"],"extra":"","comment":"synergy-profile=a.json"}]}`
	refused      = `{"errors":[{"error_number":2002,"error":"Access/permission denied"}]}`
	takenBack    = "DELETE " + prefix + "/job/7 signal=KILL"
)

func TestAJobOfARehearsalIsTakenBackWhateverBecameOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		read, update       string
		annotated, trusted bool
		fails              bool
	}{
		"gated, and ours to change": {read: annotatedJob, annotated: true, trusted: true},
		"gated, and not ours":       {read: annotatedJob, update: refused, annotated: true},
		"not gated":                 {read: plainJob, trusted: true},
		// nobody vetoes where there is no gate
		"not gated, not to change": {read: plainJob, update: refused, trusted: true},
		"cannot be read":           {read: `{"errors":[{"error_number":-1,"error":"?"}]}`, trusted: true, fails: true},
	} {
		s, client := openScripted(t, map[string]string{
			"POST " + prefix + "/job/submit": `{"job_id":7}`, "GET " + prefix + "/job/7": c.read,
			"POST " + prefix + "/job/7": c.update + strings.Repeat("{}", 1-min(1, len(c.update))),
		})
		r, err := client.Rehearse(t.Context(), "gpu", "synergy-profile=a.json")
		if (err != nil) != c.fails || r.Refused != nil || r.Annotated != c.annotated ||
			(r.Update == nil) != c.trusted || r.Left != 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if s.asked[len(s.asked)-1] != takenBack {
			t.Errorf("%s: asked %q", name, s.asked)
		}
	}
}

func TestARehearsalSaysWhatIsLeftBehindAndWhatWasRefused(t *testing.T) {
	_, client := openScripted(t, map[string]string{
		"POST " + prefix + "/job/submit": `{"job_id":7}`, "GET " + prefix + "/job/7": annotatedJob,
		"DELETE " + prefix + "/job/7": refused,
	})
	if r, err := client.Rehearse(t.Context(), "gpu", "synergy-profile=a.json"); err != nil || r.Left != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	s, client := openScripted(t, map[string]string{"POST " + prefix + "/job/submit": refused})
	if r, err := client.Rehearse(t.Context(), "gpu", "synergy-profile=a.json"); err != nil || r.Refused == nil ||
		slices.Contains(s.asked, takenBack) {
		t.Errorf("%+v, %v; asked %q", r, err, s.asked)
	}
	_, client = openScripted(t, map[string]string{"POST " + prefix +
		"/job/submit": `{"errors":[{"error_number":5003,"error":"no controller"}]}`})
	if r, err := client.Rehearse(t.Context(), "gpu", "synergy-profile=a.json"); err == nil {
		t.Errorf("without a controller: %+v", r)
	}
}

func TestWhatASiteHasIsReadFromItsAnswers(t *testing.T) {
	_, client := openScripted(t, map[string]string{
		"GET " + prefix + "/partitions/": `{"partitions":[{"name":"gpu","tres":{"configured":"cpu=48,mem=1M,gres/gpu=16,gres/gpu:a100=16","billing_weights":"CPU=0,GRES/gpu=1"}},{"name":"cpu","tres":{}}],
			"meta":{"slurm":{"release":"24.11.5"}}}`,
		"GET " + prefix + "/nodes/":         `{"nodes":[{"threads":1},{"threads":2}]}`,
		"GET /slurmdb/v0.0.42/user/synergy": `{"users":[{"administrator_level":["Operator"]}]}`,
		"GET /slurmdb/v0.0.42/user/none":    `{"users":[]}`,
	})
	partitions, release, err := client.Partitions(t.Context())
	if err != nil || release != "24.11.5" || !slices.Equal(partitions, []Partition{{"cpu", 0, ""},
		{"gpu", 16, "CPU=0,GRES/gpu=1"}}) {
		t.Errorf("%v, %s, %v", partitions, release, err)
	}
	if threads, err := client.ThreadsPerCore(t.Context()); err != nil || threads != 2 {
		t.Errorf("%d threads, %v", threads, err)
	}
	if level, err := client.Level(t.Context(), "synergy"); err != nil || level != "Operator" {
		t.Errorf("level %s, %v", level, err)
	}
	if level, err := client.Level(t.Context(), "none"); err == nil {
		t.Errorf("a user that nobody knows has the level %s", level)
	}
}

func TestATokenIsReadForWhoseItIsAndWhenItEnds(t *testing.T) {
	claims := func(text string) string {
		return "x." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".y"
	}
	for token, want := range map[string]string{
		claims(`{"sun":"synergy","exp":1767268800}`):                  "synergy 1767268800",
		"SLURM_JWT=" + claims(`{"sun":"synergy","exp":1767268800.5}`): "synergy 1767268800",
		claims(`{"exp":1e300}`):                                       " -62135596800",
		claims(`{"sun":7}`):                                           " -62135596800",
		"bare":                                                        " -62135596800",
	} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		user, ends, err := ReadToken(path)
		if got := fmt.Sprint(user, " ", ends.Unix()); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", token, got, err, want)
		}
	}
	if _, _, err := ReadToken(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a token that is not there is read")
	}
}

func TestAJobOfARehearsalIsTakenBackAlsoWhenNobodyWaitsAnyMore(t *testing.T) {
	s, client := openScripted(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if left := client.takeBack(ctx, 7); left != 0 || !slices.Equal(s.asked, []string{takenBack}) {
		t.Errorf("job %d is left, asked %q", left, s.asked)
	}
}
