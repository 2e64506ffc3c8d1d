package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"synergy-slurmd": main})
}

// The scripts are what an administrator meets: the command line, exit codes and messages.
func TestTheCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await": await,
			"torn":  torn,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("SLURMRESTD", refusing(t))
			env.Setenv("SILENT", silent(t))
			return nil
		},
	})
}

// await FILE TEXT waits until a file that is being written has a text.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for range 3000 {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && strings.Contains(string(text), args[1]) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s never had %q: %s", args[0], args[1], ts.ReadFile(args[0]))
}

// torn FILE makes a ledger that ends too early.
func torn(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	book, err := ledger.Open(path, ledger.Options{})
	ts.Check(err)
	ts.Check(book.Close())
	ts.Check(os.Truncate(path, 9000))
}

// refusing is a slurmrestd that knows no token. It has the one version that is asked for.
func refusing(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/openapi") {
			fmt.Fprint(w, `{"paths":{"/slurm/v0.0.42/ping/":{},"/slurm/v0.0.42/jobs/":{}}}`)
			return
		}
		w.WriteHeader(511)
		fmt.Fprint(w, `{"errors":[{"error_number":1007,"error":"Protocol authentication error"}]}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// silent is a slurmrestd that takes every request and answers none.
func silent(t *testing.T) string {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(func() {
		close(ended)
		server.Close()
	})
	return server.URL
}
