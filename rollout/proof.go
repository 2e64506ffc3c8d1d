package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Proof is what was seen when a daemon died while a job waited under its lease. It holds what was seen, not what to
// think of it: Passed judges it whenever it is read.
type Proof struct {
	V       int       `json:"v"` // 1
	At      time.Time `json:"at"`
	Version string    `json:"version"` // of the daemon
	Job     int       `json:"job"`
	// Partition, Account and GPUs are what the job asked for.
	Partition string `json:"partition,omitempty"`
	Account   string `json:"account,omitempty"`
	GPUs      int    `json:"gpus"`
	// How the daemon was stopped: the command, or that it was killed.
	How     string    `json:"how"`
	Stopped time.Time `json:"stopped"`          // when that had been done
	Silent  bool      `json:"silent"`           // it did not answer any more
	Begin   time.Time `json:"begin"`            // the job's own begin time, which its submitter asked for
	Lease   time.Time `json:"lease"`            // until when the daemon had leased it, when it was stopped
	Moved   time.Time `json:"moved,omitzero"`   // when it may begin, where that was moved: handed back, or renewed
	Started time.Time `json:"started,omitzero"` // when Slurm started it
	Reason  string    `json:"reason,omitempty"` // for which it still waited, in Slurm's word, where it did not start
	// Asked is the job's request as it was submitted, Had the one with which it started: equal, key by key.
	Asked map[string]string `json:"asked"`
	Had   map[string]string `json:"had,omitempty"`
	// Others are the managed jobs that waited beside it.
	Others int `json:"others"`
	// Back is how many seconds after it was told to start the daemon answered again; 0: it did not.
	Back float64 `json:"back_s"`
}

// proofVersion is written and understood.
const proofVersion = 1

// maxProof bounds a record, in bytes; ours have a thousand.
const maxProof = 64 << 10

// lag is by how much clocks may round: Slurm counts whole seconds.
const lag = 2 * time.Second

// Passed is nil if the proof shows that the daemon's end opened the site: the job waited for nothing but its lease,
// nobody renewed that, and Slurm started it when it was over, as its user had asked for it.
func (p *Proof) Passed() error {
	switch {
	case !p.Silent:
		return errors.New("the daemon went on answering")
	case !p.Lease.After(p.Begin):
		return errors.New("the job waited for its own begin time, and for no lease")
	case !p.Lease.Add(lag).After(p.Stopped):
		return errors.New("the lease was over before the daemon was stopped")
	case !p.Moved.IsZero() && p.Moved.After(p.Lease):
		return errors.New("somebody renewed the lease: another daemon")
	case p.Started.IsZero():
		return fmt.Errorf("the job did not start, for %s", orElse(p.Reason, "no reason that Slurm told"))
	case p.Started.Add(lag).Before(p.Stopped):
		return errors.New("the job started before the daemon was stopped")
	case len(p.Asked) == 0:
		return errors.New("what the job asked for is not known")
	}
	if changed := p.changed(); len(changed) > 0 {
		return fmt.Errorf("the job did not start as asked for: %s", few(changed))
	}
	return nil
}

// changed lists what of the request was another one at the start.
func (p *Proof) changed() (list []string) {
	for key, value := range p.Asked {
		if p.Had[key] != value {
			list = append(list, fmt.Sprintf("%.40s=%.80s, asked %.80s", key, p.Had[key], value))
		}
	}
	slices.Sort(list)
	return list
}

// Lapsed says that the job waited out its lease; otherwise it was handed back before.
func (p *Proof) Lapsed() bool { return !p.Started.Add(lag).Before(p.Lease) }

// Sentence is what was seen, in words.
func (p *Proof) Sentence() string {
	after := p.Started.Sub(p.Stopped).Round(time.Second)
	if !p.Lapsed() {
		return fmt.Sprintf("job %d was handed back and started %s after the stop, as asked for", p.Job, after)
	}
	return fmt.Sprintf("job %d started %s after the stop, %s after its lease was over, as asked for", p.Job, after,
		max(0, p.Started.Sub(p.Lease).Round(time.Second)))
}

// ReadProof reads the record of a proof: strictly, since a record of another version proves nothing here.
func ReadProof(r io.Reader) (Proof, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxProof+1))
	if err != nil {
		return Proof{}, err
	}
	if len(text) > maxProof {
		return Proof{}, fmt.Errorf("a proof of more than %d bytes: want one that synergy rollout prove has written",
			maxProof)
	}
	var p Proof
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Proof{}, fmt.Errorf("a proof: %w", err)
	}
	if d.More() {
		return Proof{}, errors.New("a proof: something follows it: want one alone")
	}
	if p.V != proofVersion {
		return Proof{}, fmt.Errorf("a proof: v is %d: want %d", p.V, proofVersion)
	}
	return p, nil
}

// Text is the record of a proof.
func (p Proof) Text() []byte {
	p.V = proofVersion
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil // no time that was read from a clock does this
	}
	return append(text, '\n')
}

func orElse(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}
