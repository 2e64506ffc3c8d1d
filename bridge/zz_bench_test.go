package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestZZ(t *testing.T) {
	for _, saves := range []bool{false, true} {
		for _, booked := range []bool{false, true} {
			w := shadowed(t, 128, bridge.Match{Name: "img-*", Profile: "image.json", Saves: saves}, bridge.Match{Name: "lm-*", Profile: "language.json", Saves: saves})
			w.runner.Settings.Savings = booked
			for k := range 2048 {
				name := []string{"img", "lm"}[k%2]
				w.slurm.Submit(slurmtest.Spec{Name: fmt.Sprintf("%s-%d", name, k), User: "ann", Account: "ml", Partition: "gpu",
					Request: bridge.Request{GPUs: 1, CPUsPerTask: 3, Memory: gres.Memory(62500)}})
			}
			w.sleep(time.Second)
			w.round()
			best := time.Hour
			for range 5 {
				w.sleep(5 * time.Minute)
				b := time.Now()
				w.round()
				best = min(best, time.Since(b))
			}
			t.Logf("saves %t booked %t: %s", saves, booked, best)
		}
	}
}
