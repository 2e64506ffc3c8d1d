package ledger

import (
	"fmt"
	"slices"
	"sync"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Memory is a bridge.Ledger that lasts as long as the process, for simulations, demonstrations and tests. The zero
// value is empty and stores DefaultKeep reports. It copies what a round may still change in the values that it is given
// and returns; reports are not copied.
type Memory struct {
	// Keep is the number of stored reports; 0: DefaultKeep.
	Keep int

	mu      sync.Mutex
	records bridge.Records
	intent  *bridge.Intent
	reports []bridge.Report
}

// Load returns all records, and the intent of the last round if that did not settle.
func (m *Memory) Load() (bridge.Records, *bridge.Intent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copyRecords(m.records), copyIntent(m.intent), nil
}

// LastRound returns the number of the last settled round; 0 if there is none.
func (m *Memory) LastRound() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.reports) == 0 {
		return 0
	}
	return m.reports[len(m.reports)-1].Round
}

// Intend stores what a round is about to do.
func (m *Memory) Intend(intent bridge.Intent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intent = copyIntent(&intent)
	return nil
}

// Settle replaces all records, stores the report, and removes the intent. It refuses what a Book refuses.
func (m *Memory) Settle(records bridge.Records, report bridge.Report) error {
	if err := inOrder(records); err != nil {
		return fmt.Errorf("settle round %d: %w", report.Round, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records, m.intent = copyRecords(records), nil
	if report.Small {
		return nil
	}
	m.reports = append(m.reports, report)
	m.reports = m.reports[max(0, len(m.reports)-m.kept()):]
	return nil
}

func (m *Memory) kept() int {
	if m.Keep == 0 {
		return DefaultKeep
	}
	return m.Keep
}

// Rounds lists the rounds with a stored report, in the order of arrival.
func (m *Memory) Rounds() ([]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var rounds []int
	for _, report := range m.reports {
		rounds = append(rounds, report.Round)
	}
	return rounds, nil
}

// Report returns the report of a round; the latest one if a number was used twice. ErrNoReport: it is not stored.
func (m *Memory) Report(round int) (bridge.Report, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, report := range slices.Backward(m.reports) {
		if report.Round == round {
			return report, nil
		}
	}
	return bridge.Report{}, fmt.Errorf("read report of round %d: %w", round, ErrNoReport)
}

// Latest returns the report that was settled last. ErrNoReport: no round has settled.
func (m *Memory) Latest() (bridge.Report, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.reports) == 0 {
		return bridge.Report{}, fmt.Errorf("read last report: %w", ErrNoReport)
	}
	return m.reports[len(m.reports)-1], nil
}

// Reports returns all stored reports, the oldest first.
func (m *Memory) Reports() ([]bridge.Report, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.reports), nil
}

// copyRecords copies the records with all that a round may change in them.
func copyRecords(records bridge.Records) bridge.Records {
	copied := make(bridge.Records, len(records))
	for i, record := range records {
		own := *record
		own.Own.Pin = slices.Clone(own.Own.Pin)
		copied[i] = &own
	}
	return copied
}

// copyIntent copies the list of steps, which the round keeps changing. What a step plans never changes.
func copyIntent(intent *bridge.Intent) *bridge.Intent {
	if intent == nil {
		return nil
	}
	copied := *intent
	copied.Steps = slices.Clone(intent.Steps)
	return &copied
}
