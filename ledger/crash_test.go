package ledger_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// childPath names the ledger on which this test binary, started again, runs rounds until it is killed.
const childPath = "SYNERGY_TEST_LEDGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		runRounds(path)
		return
	}
	os.Exit(m.Run())
}

// runRounds intends and settles without end, and says each time when it is done. Round n has the jobs 1 to n%7+1, each
// with n starts.
func runRounds(path string) {
	book, err := ledger.Open(path, ledger.Options{Keep: 3})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for round := 1; ; round++ {
		if err := book.Intend(intentOf(round)); err != nil {
			os.Exit(1)
		}
		fmt.Println("intended", round)
		records := recordsOf()
		for job := 1; job <= round%7+1; job++ {
			record := recordOf(job)
			record.Starts = round
			records = append(records, record)
		}
		if err := book.Settle(records, reportOf(round)); err != nil {
			os.Exit(1)
		}
		fmt.Println("settled", round)
	}
}

// killedAfter starts a child, kills it when it has said so many lines, and returns the last line that it said.
func killedAfter(t *testing.T, path string, lines int) string {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childPath+"="+path)
	said, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	scanner := bufio.NewScanner(said)
	last := ""
	for ; lines > 0 && scanner.Scan(); lines-- {
		last = scanner.Text()
	}
	must(t, child.Process.Kill())
	for scanner.Scan() {
		last = scanner.Text() // written before the kill arrived
	}
	child.Wait()
	return last
}

func TestAKilledDaemonsLastWordHolds(t *testing.T) {
	for lines := 1; lines <= 16; lines++ {
		path := filepath.Join(t.TempDir(), "ledger")
		last := killedAfter(t, path, lines)
		book := open(t, path)
		wholeRound(t, book, last)
		must(t, book.Close())
	}
}

// wholeRound checks that the ledger is as some round left it, and not behind what the child said last.
func wholeRound(t *testing.T, book *ledger.Book, last string) {
	t.Helper()
	records, intent := load(t, book)
	round := 0
	for _, record := range records {
		if round != 0 && record.Starts != round {
			t.Errorf("%s: records of the rounds %d and %d", last, round, record.Starts)
		}
		round = record.Starts
	}
	if round != 0 && len(records) != round%7+1 {
		t.Errorf("%s: %d records of round %d", last, len(records), round)
	}
	if intent != nil && intent.Round != round+1 {
		t.Errorf("%s: the intent of round %d beside records of round %d", last, intent.Round, round)
	}
	notBehind(t, last, round, intent != nil)
	if report, err := book.Latest(); round != 0 && (err != nil || report.Round != round) {
		t.Errorf("%s: the last report is of round %d, %v", last, report.Round, err)
	}
}

func notBehind(t *testing.T, last string, round int, intended bool) {
	t.Helper()
	var verb string
	var said int
	if _, err := fmt.Sscan(last, &verb, &said); err != nil {
		t.Fatalf("the child said %q", last)
	}
	if verb == "settled" && round < said {
		t.Errorf("%s: but the records are of round %d", last, round)
	}
	if verb == "intended" && round < said && !(intended && round == said-1) {
		t.Errorf("%s: but there is no intent, and the records are of round %d", last, round)
	}
}
