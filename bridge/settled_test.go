package bridge

import (
	"testing"
	"time"
)

func TestAJobIsThroughWithItsLastRunASecondAfterTheSecondOfItsTeardown(t *testing.T) {
	at := noon.Add(500 * time.Millisecond)
	for _, c := range []struct {
		name string
		job  Job
		want bool
	}{
		{"never ran", Job{State: Pending, Submitted: at}, true},
		{"runs", Job{State: Running, Submitted: noon.Add(-time.Hour)}, false},
		{"is being torn down", Job{State: Pending, Completing: true, Restarts: 1, Submitted: noon.Add(-time.Hour)}, false},
		{"was torn down in this second", Job{State: Pending, Restarts: 1, Submitted: noon}, false},
		{"was torn down in the last second", Job{State: Pending, Restarts: 1, Submitted: noon.Add(-time.Second)}, false},
		{"was torn down in the second before", Job{State: Pending, Restarts: 1, Submitted: noon.Add(-1001 * time.Millisecond)}, true},
	} {
		if got := settled(&c.job, at); got != c.want {
			t.Errorf("a job that %s: settled %v, want %v", c.name, got, c.want)
		}
	}
}
