package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/policy/replay"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// Past is where what is older than the last rounds is read, too: from a daemon, or from the folder of its history or
// its ledger if the daemon is down.
type Past struct {
	Source
	Folder string // of the history; empty: none is named
}

// openNamedHistory opens the folder of --history. It returns nil without an error if the flag was not given.
func (s *Past) openNamedHistory() (*history.Reader, error) {
	if s.Folder == "" {
		return nil, nil
	}
	return openHistory(s.Folder)
}

// openUsualHistory opens the usual history folder if no source was named and no daemon has answered, which err says.
// Otherwise, or if the folder cannot be read, it returns nil. The caller then reports err, since the folder was only a
// second choice.
func (s *Past) openUsualHistory(err error) *history.Reader {
	if s.Daemon != "" || s.Ledger != "" || !errors.Is(err, ErrSilent) {
		return nil
	}
	past, err := history.Read(UsualHistory)
	if err != nil {
		return nil
	}
	return past
}

// story is what is known of a job. over names what was searched for it, and notes gets the gaps. It asks the daemon
// first, unless a folder or a ledger was named. If none answers, it reads the usual history, and without one the usual
// ledger. A daemon too old for the page /story (ErrGone) is asked for its reports instead. A folder and a ledger that
// are both named are joined, since only the ledger has the present state.
func (s *Past) story(ctx context.Context, notes io.Writer, job int) (told story.Story, over string, err error) {
	past, err := s.openNamedHistory()
	if past == nil && err == nil && s.Ledger == "" {
		told, err = s.askStory(ctx, job)
		if past = s.openUsualHistory(err); err == nil ||
			past == nil && !errors.Is(err, ErrGone) && !errors.Is(err, ErrSilent) {
			return told, "rounds that are kept", err
		}
	} else if err != nil {
		return told, "", err
	}
	var now story.Story
	if past == nil || s.Ledger != "" {
		reports, err := s.Reports(ctx) // of a ledger, or of a daemon too old to have /story
		if now = story.Of(job, reports); past == nil || err != nil {
			return now, fmt.Sprintf("%d rounds that are kept", len(reports)), err
		}
	}
	passages, gaps, err := past.Story(ctx, job)
	printGaps(notes, gaps)
	return story.Join(job, passages, now), "rounds in the history", err
}

// askStory asks the daemon for a job's story. The error is ErrGone if the daemon is too old to have the page.
func (s *Past) askStory(ctx context.Context, job int) (told story.Story, err error) {
	daemon, err := s.client()
	if err != nil {
		return told, err
	}
	return told, daemon.Get(ctx, "/story/"+strconv.Itoa(job), &told)
}

// runs returns the runs that the question asks for; more says that there are others beyond its bound. It reads them
// from the folder or the ledger that was named, or else from the daemon, and if none answers from the usual history.
// notes gets the days that could not be read.
func (s *Past) runs(ctx context.Context, notes io.Writer, q history.Question) (runs []story.Run, more bool, err error) {
	past, err := s.openNamedHistory()
	switch {
	case err != nil:
		return nil, false, err
	case past == nil && s.Ledger != "":
		reports, err := s.Reports(ctx)
		if err != nil {
			return nil, false, err
		}
		runs, more = history.Of(reports, q)
		return runs, more, nil
	case past == nil:
		if runs, more, err = s.askRuns(ctx, notes, q); err == nil {
			return runs, more, nil
		}
		if past = s.openUsualHistory(err); past == nil {
			return nil, false, err
		}
	}
	runs, more, gaps, err := past.Runs(ctx, q)
	printGaps(notes, gaps)
	return runs, more, err
}

// askRuns asks the daemon for the runs that the question asks for. The returned bool says that there are more than it
// returns. Days that the daemon could not read are told to notes.
func (s *Past) askRuns(ctx context.Context, notes io.Writer, q history.Question) ([]story.Run, bool, error) {
	words := url.Values{"since": {q.Since.UTC().Format(time.RFC3339)}, "until": {q.Until.UTC().Format(time.RFC3339)}}
	if q.User != "" {
		words.Set("user", q.User)
	}
	if q.Job > 0 {
		words.Set("job", strconv.Itoa(q.Job))
	}
	daemon, err := s.client()
	if err != nil {
		return nil, false, err
	}
	var answer struct {
		Runs []story.Run `json:"runs"`
		More bool        `json:"more"`
		Gaps []string    `json:"gaps"`
	}
	if err := daemon.Get(ctx, "/history?"+words.Encode(), &answer); err != nil {
		return nil, false, err
	}
	for _, gap := range answer.Gaps {
		printGaps(notes, []error{errors.New(gap)})
	}
	return answer.Runs, answer.More, nil
}

// readKeptRound is the text of a kept round with all that is needed to plan it again. It is read from the folder or the
// ledger that was named, or else from the daemon, and if none answers from the usual history. A round that the daemon
// does not keep is an error and is not looked for elsewhere.
func (s *Past) readKeptRound(ctx context.Context, number int) ([]byte, error) {
	past, err := s.openNamedHistory()
	switch {
	case err != nil:
		return nil, err
	case past == nil && s.Ledger != "":
		return s.roundOfLedger(ctx, number)
	case past == nil:
		daemon, err := s.client()
		if err != nil {
			return nil, err
		}
		text, err := daemon.Text(ctx, "/replay/"+strconv.Itoa(number))
		if errors.Is(err, ErrGone) {
			return nil, Failed{fmt.Errorf("round %d: the daemon keeps none of that number: %w", number, err)}
		}
		if past = s.openUsualHistory(err); past == nil {
			return text, err
		}
	}
	text, err := past.Round(number)
	return text, asFailed(err)
}

// roundOfLedger is the text of a kept round, as readKeptRound returns it, for a round of the ledger. A ledger keeps
// only the last rounds, and it is an error if the round is none of them.
func (s *Past) roundOfLedger(ctx context.Context, number int) ([]byte, error) {
	reports, err := s.Reports(ctx)
	if err != nil {
		return nil, err
	}
	for i := range reports {
		if r := &reports[i]; r.Round == number {
			return replayRoundOf(r).Print()
		}
	}
	return nil, Failed{fmt.Errorf("round %d: the ledger keeps the last %d rounds, and it is none of them", number,
		len(reports))}
}

// replayRoundOf is a report without what planning does not need. The version stays empty, since a report does not say
// it.
func replayRoundOf(r *bridge.Report) *replay.Round {
	return &replay.Round{Round: r.Round, Began: r.Began, External: r.External, Shadow: r.Shadow, Snapshot: r.Snapshot,
		Profiles: r.Profiles, Policy: r.Policy, Allocator: r.Allocator, Plan: r.Plan}
}

// printGaps prints which days of a history could not be read: the answer is incomplete then.
func printGaps(notes io.Writer, gaps []error) {
	for _, gap := range gaps {
		remedy := ""
		switch {
		case errors.Is(gap, history.ErrLocked):
			remedy = ": a daemon runs, ask it, without --history"
		case errors.Is(gap, fs.ErrPermission):
			remedy = ": it takes the daemon's user or root"
		}
		fmt.Fprintf(notes, "synergy: left out: %s%s\n", printable.Line(gap.Error(), LongestSentence), remedy)
	}
}
