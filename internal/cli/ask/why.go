package ask

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// whyTitles are the titles of what the last round says of a job, by its state.
var whyTitles = map[story.JobState]string{
	story.StateWaits:   "why it waits",
	story.StateStarts:  "why it does not run yet",
	story.StateRuns:    "why it has no more",
	story.StateOutside: "why it is left to Slurm",
}

// showWhy writes why the job waits or has no more, then what nodes lack for it and which limits keep it from more. If
// the last round does not know the job, it writes what the job waited for in the newest round of its story, if it
// waited.
func (a *explainAnswer) showWhy(t *Text, now time.Time) {
	if a.Why == nil {
		if a.Wait != nil {
			lines := append([]string{waitText(a.Wait, a.Ahead, a.Next)}, remedyOf(a.Wait)...)
			showSection(t, whyTitles[story.StateWaits], lines)
		}
		return
	}
	showSection(t, whyTitles[a.Why.State], append([]string{a.Why.Says, a.waitDetails(now)}, remedyOf(a.Why.Wait)...))
	if len(a.Why.Kinds) > 0 {
		t.Say(2, "nodes:")
	}
	for i := range a.Why.Kinds {
		k := &a.Why.Kinds[i]
		t.Say(4, kindText(k)+": "+k.Says)
		if text := holdersText(k); text != "" {
			t.Say(8, text)
		}
	}
	if len(a.Why.Quotas) > 0 {
		t.Say(2, "limits:")
	}
	for i := range a.Why.Quotas {
		q := &a.Why.Quotas[i]
		t.Say(4, q.Name+" "+q.Says+heldByText(q.Holds))
	}
}

// remedyOf says what to do about a job that can never start as it is requested. It returns nil for any other job, such
// as one that waits for room, its turn or a limit, which may come without a change. A job with a remedy gets no
// forecast.
func remedyOf(w *bridge.Wait) []string {
	if w != nil && w.Reason == bridge.Misconfigured {
		return []string{"no room that comes free helps it: change the request, or ask the administrator"}
	}
	return nil
}

// waitDetails is the rest of the answer in one line: the reason in fixed words, which jobs go before it, and which
// round says so. It never says that the round was in the shadow, since WhyNot does not have that.
func (a *explainAnswer) waitDetails(now time.Time) string {
	var all []string
	if a.Why.Wait != nil {
		all = append(all, waitText(a.Why.Wait, a.Why.Ahead, a.Why.Next))
	}
	// A job with a story has the time of its submission under its title.
	if !a.Known && !a.Why.Since.IsZero() {
		all = append(all, "submitted "+clockTime(a.Why.Since))
	}
	return strings.Join(append(all, AsOf(a.Why.Round, a.Why.Began, now, false)), "; ")
}

// waitText is the reason of a wait in fixed words, which scripts and metrics use, and the jobs that wait for room and
// go before it. n is the number of these jobs, and next has the IDs of the first few.
func waitText(w *bridge.Wait, n int, next []int) string {
	text := fmt.Sprintf("reason %s, cause %s", w.Reason, w.Cause)
	var names []string
	for _, job := range next {
		names = append(names, strconv.Itoa(job))
	}
	list := strings.Join(names, ", ")
	if more := n - len(next); len(next) > 0 && more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case n == 0:
		return text
	case list == "": // an older daemon sends no job numbers
		return fmt.Sprintf("%s; jobs that go before it: %d", text, n)
	case n == 1:
		return text + "; one job that waits for room goes before it: " + list
	}
	return fmt.Sprintf("%s; %d jobs that wait for room go before it: %s", text, n, list)
}

// kindText names the nodes of one kind, and what each of them has in all.
func kindText(k *story.Kind) string {
	text := fmt.Sprintf("%s (%s, %s, %s", story.Nodes(k.Nodes), countText(k.Each.GPUs, "GPU"),
		countText(k.Each.CPUs, "core"), story.Gigabytes(k.Each.Memory))
	if k.Type != "" {
		text += ", " + k.Type
	}
	return text + ")"
}

// maxHoldersListed is how many jobs are named that hold something.
const maxHoldersListed = 6

// holdersText says which jobs hold what on the nearest node of a kind, the one with the most free. Job 0 stands for all
// jobs that are not managed. The text is empty if no job holds anything.
func holdersText(k *story.Kind) string {
	var all []string
	for i, h := range k.Holders {
		if i == maxHoldersListed {
			all = append(all, fmt.Sprintf("%d more", len(k.Holders)-i))
			break
		}
		who := fmt.Sprintf("job %d of %s", h.Job, h.User)
		if h.Job == 0 {
			who = "jobs that are not managed"
		}
		has := fmt.Sprintf("%s %s, %s and %s", who, countText(h.Has.GPUs, "GPU"), countText(h.Has.CPUs, "core"),
			story.Gigabytes(h.Has.Memory))
		if h.GivesBack {
			has += ", which can be asked back"
		}
		all = append(all, has)
	}
	if len(all) == 0 {
		return ""
	}
	return "on " + k.Nearest + " have " + strings.Join(all, "; ")
}

// heldByText names the jobs that use up a limit, as the end of the limit's line. The text is empty for an empty list,
// in which case none is known.
func heldByText(jobs []int) string {
	text := ""
	for i, job := range jobs {
		switch {
		case i == maxHoldersListed:
			return text + fmt.Sprintf(" and %d more", len(jobs)-i)
		case i > 0:
			text += ", "
		case len(jobs) == 1:
			text = "; the rest is held by job "
		default:
			text = "; the rest is held by jobs "
		}
		text += strconv.Itoa(job)
	}
	return text
}
