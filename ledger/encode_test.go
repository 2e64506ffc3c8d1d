package ledger

import (
	"encoding/json"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// What a strict decoder lets in is exactly what it writes again: nothing is lost between two rounds.
func FuzzARecordThatIsLoadedIsSettledUnchanged(f *testing.F) {
	whole, err := json.Marshal(bridge.Record{Job: 5, Attained: 2.5, Own: slurm.Request{Pin: []string{"n1"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"job":5,"own":{}}`))
	f.Add([]byte(`{"job":5,"JOB":5,"attained_gpu_s":1e308}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		record, err := decodeRecord(number(5), raw)
		if err != nil {
			return
		}
		first, err := encodeRecord(&record)
		if err != nil {
			t.Fatalf("encode %+v: %v", record, err)
		}
		again, err := decodeRecord(number(5), first)
		if err != nil {
			t.Fatalf("decode %s: %v", first, err)
		}
		second, err := encodeRecord(&again)
		if err != nil || string(first) != string(second) {
			t.Fatalf("%s became %s, %v", first, second, err)
		}
	})
}
