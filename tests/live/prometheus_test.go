//go:build live

package live

import (
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	prometheusURL  = "http://127.0.0.1:9090"
	prometheusConf = `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [synergy.rules.yaml]
scrape_configs:
  - job_name: synergy
    static_configs: [{targets: ["127.0.0.1:9817"]}]
`
)

// grafanaQueries are the queries of the dashboard, with what Grafana puts in for its variables.
func grafanaQueries(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile("../../etc/grafana/synergy.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "15s", "$instance", ".*")
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	return queries
}

// prometheus starts a Prometheus beside the daemon, with the rules that are shipped.
func (d *Daemon) prometheus() {
	d.c.t.Helper()
	d.Put("prometheus.yml", prometheusConf)
	d.c.MustExec("login", "synergy", "cp", "/opt/synergy/etc/prometheus/synergy.rules.yaml", d.dir)
	const run = `cd "$1"; echo $$ > prometheus.pid; exec prometheus --config.file=prometheus.yml \
		--storage.tsdb.path=/tmp/prometheus.$$ --web.listen-address=127.0.0.1:9090 > prometheus.log 2>&1`
	d.c.docker("exec", "-d", "-u", "synergy", d.c.container("login"), "sh", "-c", run, "sh", d.dir)
	d.c.t.Cleanup(func() {
		const stop = `pid=$(cat "$1/prometheus.pid"); kill "$pid"; rm -rf "/tmp/prometheus.$pid"`
		_, _ = d.c.Exec("login", "synergy", "sh", "-c", stop, "sh", d.dir)
	})
}

// query is how many series the Prometheus beside the daemon has for a query.
func (d *Daemon) query(expr string) int {
	d.c.t.Helper()
	out, err := d.c.Exec("login", "synergy", "curl", "-s", prometheusURL+"/api/v1/query?query="+url.QueryEscape(expr))
	var answer struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	if err != nil || json.Unmarshal([]byte(out), &answer) != nil {
		return 0 // it has not come up
	}
	if answer.Error != "" {
		d.c.t.Fatalf("%s: %s", expr, answer.Error)
	}
	return len(answer.Data.Result)
}

// TestEveryQueryOfDashboardAndAlertsFindsDataInPrometheus: in a real one, with the files that are shipped.
func TestEveryQueryOfDashboardAndAlertsFindsDataInPrometheus(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Round = 2 * time.Second
	d.Start()
	d.prometheus()
	c.WaitForState(c.MustSbatch("alice", "sleep 600", word("res18"), "--gres=gpu:1", output), "RUNNING")
	c.MustSbatch("alice", "sleep 600", word("res18"), "--gres=gpu:1", output, "--begin=now+1hour")

	rules := d.Read("synergy.rules.yaml")
	wanted := grafanaQueries(t)
	for _, name := range regexp.MustCompile(`\bsynergy_[a-z_]+`).FindAllString(rules, -1) {
		wanted = append(wanted, name)
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	var empty []string
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		empty = slices.DeleteFunc(slices.Clone(wanted), func(expr string) bool { return d.query(expr) > 0 })
		if len(empty) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(wanted) < 30 || len(empty) > 0 {
		t.Errorf("%d queries, without data: %s\n%s", len(wanted), strings.Join(empty, "\n"), d.Read("prometheus.log"))
	}
	if n := d.query(`ALERTS{alertname!~"SynergyPlans.*"}`); n > 0 {
		t.Errorf("%d alerts on a daemon that is well: %s", n, c.MustExec("login", "synergy", "curl", "-s",
			prometheusURL+"/api/v1/alerts"))
	}

	alerts, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d.Put("alerts.yaml", string(alerts))
	t.Log(c.MustExec("login", "synergy", "promtool", "test", "rules", d.dir+"/alerts.yaml"))
}
